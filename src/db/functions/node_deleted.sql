-- Keeps whose a deleted node was and where its shares go, whichever version of a gateway deletes it (docs/decisions/0069). Who has written a
-- node back by hand can delete it again.
CREATE OR REPLACE FUNCTION node_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO deleted_nodes (node_id, customer_id, payout_address, former_payees, deleted_at)
    VALUES (OLD.node_id, OLD.customer_id, OLD.payout_address, OLD.former_payees, now())
    ON CONFLICT (node_id) DO UPDATE SET customer_id = excluded.customer_id, payout_address = excluded.payout_address,
      former_payees = excluded.former_payees, deleted_at = excluded.deleted_at;
  RETURN NULL;
END $$;
