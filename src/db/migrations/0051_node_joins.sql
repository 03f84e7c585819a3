CREATE TABLE "node_joins" (
	"join_id" text PRIMARY KEY NOT NULL,
	"state" text DEFAULT 'begun' NOT NULL,
	"public_key" "bytea" NOT NULL,
	"transport_keys" jsonb NOT NULL,
	"name" text,
	"commitment" text NOT NULL,
	"router_kid" text NOT NULL,
	"nonce" text NOT NULL,
	"node_nonce" text,
	"words" text,
	"address_hash" text NOT NULL,
	"node_id" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "node_joins_commitment_unique" UNIQUE("commitment")
);
--> statement-breakpoint
CREATE INDEX "node_joins_expires_at_index" ON "node_joins" USING btree ("expires_at");