-- Who did what is asked for by the person: approvals are few, calls and commands are not.
CREATE INDEX admin_access_events_actor ON admin_access_events USING btree (actor_hash_prefix);
--> statement-breakpoint
CREATE INDEX admin_command_events_actor ON admin_command_events USING btree (actor_hash_prefix);
--> statement-breakpoint
-- Each receipt on hold waits for an admin, and there are few.
CREATE INDEX "receipts_held_index" ON "receipt_rows" USING btree ("created_at") WHERE status = 'held';
--> statement-breakpoint
-- When gateways started: plots show it.
CREATE TABLE "gateway_starts" (
	"start_id" text PRIMARY KEY NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL
);

