CREATE TABLE "node_wakes" (
	"node_id" text PRIMARY KEY NOT NULL,
	"packet_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "macs" jsonb;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "wake_secret_sealed" "bytea";--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "networks" jsonb;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "wake_hours" text;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "asleep" jsonb;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "wake_ms" double precision;--> statement-breakpoint
ALTER TABLE "node_wakes" ADD CONSTRAINT "node_wakes_node_id_nodes_node_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("node_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
-- An edit of how and when a node is woken is one of the node: what was read before it no longer matches (If-Match). That it sleeps is none.
DROP TRIGGER nodes_revised ON nodes;
--> statement-breakpoint
CREATE TRIGGER nodes_revised BEFORE UPDATE OF name, url, api_key_sealed, visibility, node_class, privacy_class, rank, external, payout_address, serves, macs, wake_secret_sealed, wake_hours ON nodes FOR EACH ROW
WHEN ((OLD.name, OLD.url, OLD.api_key_sealed, OLD.visibility, OLD.node_class, OLD.privacy_class, OLD.rank, OLD.external, OLD.payout_address, OLD.serves, OLD.macs, OLD.wake_secret_sealed, OLD.wake_hours)
  IS DISTINCT FROM (NEW.name, NEW.url, NEW.api_key_sealed, NEW.visibility, NEW.node_class, NEW.privacy_class, NEW.rank, NEW.external, NEW.payout_address, NEW.serves, NEW.macs, NEW.wake_secret_sealed, NEW.wake_hours))
EXECUTE FUNCTION row_revised();
