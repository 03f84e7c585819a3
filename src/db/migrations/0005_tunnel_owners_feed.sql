-- Gateways keep a copy of who holds which tunnel (decisions §26). Renewed leases tell nobody anything.
INSERT INTO directory_versions (topic, version) VALUES ('tunnel_owners', 1);
--> statement-breakpoint
CREATE TRIGGER tunnel_owners_changed AFTER UPDATE ON tunnel_owners FOR EACH ROW
WHEN (OLD.epoch IS DISTINCT FROM NEW.epoch)
EXECUTE FUNCTION directory_changed('tunnel_owners');
--> statement-breakpoint
CREATE TRIGGER tunnel_owners_added AFTER INSERT OR DELETE ON tunnel_owners FOR EACH ROW
EXECUTE FUNCTION directory_changed('tunnel_owners');
