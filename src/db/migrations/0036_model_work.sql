ALTER TABLE "model_entries" ADD COLUMN "serves" jsonb;--> statement-breakpoint
ALTER TABLE "model_profiles" ADD COLUMN "answered" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "serves" jsonb;