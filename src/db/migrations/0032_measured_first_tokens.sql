ALTER TABLE "model_profiles" ADD COLUMN "ttft_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "model_profiles" ADD COLUMN "ttft_count" bigint DEFAULT 0 NOT NULL;