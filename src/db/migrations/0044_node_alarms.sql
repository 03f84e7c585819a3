ALTER TABLE "nodes" ADD COLUMN "alarms" jsonb;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "alarms_at" timestamp (3) with time zone;