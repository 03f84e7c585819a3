CREATE TABLE "envelope_replays" (
	"node_id" text NOT NULL,
	"public_key_hash" "bytea" NOT NULL,
	"command_id" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "envelope_replays_node_id_public_key_hash_pk" PRIMARY KEY("node_id","public_key_hash")
);
--> statement-breakpoint
CREATE TABLE "private_jobs" (
	"command_id" text PRIMARY KEY NOT NULL,
	"job_id" text NOT NULL,
	"sealed_job_id" text NOT NULL,
	"customer_id" text NOT NULL,
	"node_id" text NOT NULL,
	"model_id" text NOT NULL,
	"upstream_model_id" text NOT NULL,
	"runtime_id" text NOT NULL,
	"fingerprint" "bytea" NOT NULL,
	"encrypted_request" jsonb NOT NULL,
	"encrypted_response" jsonb,
	"status" text NOT NULL,
	"attempt" integer DEFAULT 0 NOT NULL,
	"request_id" text NOT NULL,
	"error_code" text,
	"receipt_hash" text,
	"due_at" timestamp (3) with time zone NOT NULL,
	"lease_id" text,
	"deadline_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "private_jobs_customerId_jobId_unique" UNIQUE("customer_id","job_id"),
	CONSTRAINT "private_jobs_customerId_fingerprint_unique" UNIQUE("customer_id","fingerprint")
);
--> statement-breakpoint
CREATE TABLE "retired_webhook_secrets" (
	"customer_id" text NOT NULL,
	"secret_sealed" "bytea" NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"webhook_id" text PRIMARY KEY NOT NULL,
	"command_id" text NOT NULL,
	"job_id" text NOT NULL,
	"customer_id" text NOT NULL,
	"url" text NOT NULL,
	"status" text,
	"body" text,
	"attempts" integer DEFAULT 0 NOT NULL,
	"last_error" text,
	"due_at" timestamp (3) with time zone,
	"lease_id" text,
	"last_attempt_at" timestamp (3) with time zone,
	"delivered_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "webhook_deliveries_commandId_unique" UNIQUE("command_id")
);
--> statement-breakpoint
CREATE INDEX "envelope_replays_created_at_index" ON "envelope_replays" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "private_jobs_due" ON "private_jobs" USING btree ("node_id","due_at") WHERE completed_at is null;--> statement-breakpoint
CREATE INDEX "private_jobs_deadline" ON "private_jobs" USING btree ("deadline_at") WHERE completed_at is null;--> statement-breakpoint
CREATE INDEX "private_jobs_open" ON "private_jobs" USING btree ("customer_id") WHERE completed_at is null;--> statement-breakpoint
CREATE INDEX "private_jobs_ended" ON "private_jobs" USING btree ("completed_at") WHERE completed_at is not null;--> statement-breakpoint
CREATE INDEX "private_jobs_recent" ON "private_jobs" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "retired_webhook_secrets_customer_id_index" ON "retired_webhook_secrets" USING btree ("customer_id");--> statement-breakpoint
CREATE INDEX "retired_webhook_secrets_expires_at_index" ON "retired_webhook_secrets" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_due" ON "webhook_deliveries" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_recent" ON "webhook_deliveries" USING btree ("created_at");