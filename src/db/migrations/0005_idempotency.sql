CREATE TABLE "idempotency_keys" (
	"customer_id" text NOT NULL,
	"key_hash" "bytea" NOT NULL,
	"fingerprint" "bytea" NOT NULL,
	"request_id" text NOT NULL,
	"status" text DEFAULT 'in_progress' NOT NULL,
	"receipt_hash" text,
	"usage" jsonb,
	"http_status" integer,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"completed_at" timestamp (3) with time zone,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_customer_id_key_hash_pk" PRIMARY KEY("customer_id","key_hash")
);
--> statement-breakpoint
CREATE INDEX "idempotency_keys_expires_at_index" ON "idempotency_keys" USING btree ("expires_at");