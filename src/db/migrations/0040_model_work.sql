ALTER TABLE "model_profiles" ADD COLUMN "answered" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "serves" jsonb;--> statement-breakpoint
-- An edit of what a node's models do is one of the node: what was read before it no longer matches (If-Match).
DROP TRIGGER nodes_revised ON nodes;
--> statement-breakpoint
CREATE TRIGGER nodes_revised BEFORE UPDATE OF name, url, api_key_sealed, visibility, node_class, privacy_class, rank, external, payout_address, serves ON nodes FOR EACH ROW
WHEN ((OLD.name, OLD.url, OLD.api_key_sealed, OLD.visibility, OLD.node_class, OLD.privacy_class, OLD.rank, OLD.external, OLD.payout_address, OLD.serves)
  IS DISTINCT FROM (NEW.name, NEW.url, NEW.api_key_sealed, NEW.visibility, NEW.node_class, NEW.privacy_class, NEW.rank, NEW.external, NEW.payout_address, NEW.serves))
EXECUTE FUNCTION row_revised();
