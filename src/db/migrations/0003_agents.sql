CREATE TABLE "enrollment_tokens" (
	"token_id" text PRIMARY KEY NOT NULL,
	"token_hash" "bytea" NOT NULL,
	"display_prefix" text NOT NULL,
	"customer_id" text NOT NULL,
	"name" text NOT NULL,
	"visibility" text NOT NULL,
	"privacy_class" text NOT NULL,
	"node_class" text NOT NULL,
	"endpoint_url_allowed" boolean NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"used_at" timestamp (3) with time zone,
	"used_by" text,
	CONSTRAINT "enrollment_tokens_tokenHash_unique" UNIQUE("token_hash")
);
--> statement-breakpoint
CREATE TABLE "node_identities" (
	"public_key" "bytea" PRIMARY KEY NOT NULL,
	"node_id" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "node_nonces" (
	"node_id" text NOT NULL,
	"nonce_hash" "bytea" NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "node_nonces_node_id_nonce_hash_pk" PRIMARY KEY("node_id","nonce_hash")
);
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "identity_key" "bytea";--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "transport_keys" jsonb;--> statement-breakpoint
ALTER TABLE "enrollment_tokens" ADD CONSTRAINT "enrollment_tokens_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "enrollment_tokens_customer_id_index" ON "enrollment_tokens" USING btree ("customer_id");--> statement-breakpoint
CREATE INDEX "node_nonces_expires_at_index" ON "node_nonces" USING btree ("expires_at");