CREATE TABLE "admin_tokens" (
	"token_hash" "bytea" PRIMARY KEY NOT NULL,
	"role" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "customers" (
	"customer_id" text PRIMARY KEY NOT NULL,
	"display_name" text NOT NULL,
	"account_status" text DEFAULT 'active' NOT NULL,
	"gateway_policy" jsonb,
	"token_hash" "bytea" NOT NULL,
	"webhook_secret_sealed" "bytea" NOT NULL,
	"balance_wei" numeric(78, 0) DEFAULT 0 NOT NULL,
	"reserved_wei" numeric(78, 0) DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "customers_tokenHash_unique" UNIQUE("token_hash")
);
--> statement-breakpoint
CREATE TABLE "gateway_keys" (
	"key_id" text PRIMARY KEY NOT NULL,
	"customer_id" text NOT NULL,
	"key_hash" "bytea" NOT NULL,
	"display_prefix" text NOT NULL,
	"name" text NOT NULL,
	"node_scope" jsonb,
	"model_policy" jsonb,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"last_used_at" timestamp (3) with time zone,
	"expires_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone,
	CONSTRAINT "gateway_keys_keyHash_unique" UNIQUE("key_hash")
);
--> statement-breakpoint
CREATE TABLE "model_entries" (
	"model_id" text PRIMARY KEY NOT NULL,
	"aliases" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"name" text,
	"description" text,
	"input_modalities" jsonb,
	"output_modalities" jsonb,
	"context_length" integer,
	"max_output_length" integer,
	"prompt_token_price_wei" numeric(78, 0),
	"completion_token_price_wei" numeric(78, 0),
	"usd_prices" jsonb,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "model_profiles" (
	"profile_id" text PRIMARY KEY NOT NULL,
	"runtime_id" text NOT NULL,
	"upstream_model_id" text NOT NULL,
	"last_measured_at" timestamp (3) with time zone,
	"ttft_ms" double precision,
	"tokens_per_second" double precision,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "model_profiles_runtimeId_upstreamModelId_unique" UNIQUE("runtime_id","upstream_model_id")
);
--> statement-breakpoint
CREATE TABLE "nodes" (
	"node_id" text PRIMARY KEY NOT NULL,
	"customer_id" text NOT NULL,
	"kind" text NOT NULL,
	"name" text NOT NULL,
	"url" text,
	"api_key_sealed" "bytea",
	"visibility" text NOT NULL,
	"privacy_class" text NOT NULL,
	"node_class" text NOT NULL,
	"payout_address" text,
	"admin_state" text DEFAULT 'active' NOT NULL,
	"origin" text DEFAULT 'operator' NOT NULL,
	"drain_started_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "runtimes" (
	"runtime_id" text PRIMARY KEY NOT NULL,
	"node_id" text NOT NULL,
	"label" text DEFAULT '' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "runtimes_nodeId_label_unique" UNIQUE("node_id","label")
);
--> statement-breakpoint
CREATE TABLE "receipts" (
	"receipt_hash" text PRIMARY KEY NOT NULL,
	"issuer" text NOT NULL,
	"request_id" text NOT NULL,
	"job_id" text,
	"kind" text NOT NULL,
	"node_id" text NOT NULL,
	"node_class" text NOT NULL,
	"runtime_id" text NOT NULL,
	"runtime_kind" text NOT NULL,
	"model_id" text NOT NULL,
	"prompt_tokens" integer NOT NULL,
	"completion_tokens" integer NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"completed_at" timestamp (3) with time zone NOT NULL,
	"customer_id" text NOT NULL,
	"status" text DEFAULT 'accepted' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "gateway_keys" ADD CONSTRAINT "gateway_keys_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "model_profiles" ADD CONSTRAINT "model_profiles_runtime_id_runtimes_runtime_id_fk" FOREIGN KEY ("runtime_id") REFERENCES "public"."runtimes"("runtime_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "nodes" ADD CONSTRAINT "nodes_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "runtimes" ADD CONSTRAINT "runtimes_node_id_nodes_node_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("node_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "gateway_keys_customer_id_index" ON "gateway_keys" USING btree ("customer_id");--> statement-breakpoint
CREATE INDEX "nodes_customer_id_index" ON "nodes" USING btree ("customer_id");--> statement-breakpoint
CREATE INDEX "receipts_created_at_index" ON "receipts" USING btree ("created_at");