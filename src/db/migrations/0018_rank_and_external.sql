ALTER TABLE "nodes" ADD COLUMN "rank" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "external" boolean DEFAULT false NOT NULL;