-- Who changes the view `payouts` changes rows: gateways of the version before, while they are replaced. A share that is in a
-- group becomes a row with all of its group. A view cannot lock its rows, so a row that is not as it was read is not changed.
CREATE OR REPLACE FUNCTION payout_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.group_last_seq IS NOT NULL THEN PERFORM charge_shares_move(ARRAY[OLD.group_last_seq]); END IF;
  UPDATE payout_rows p SET entry_id = NEW.entry_id, node_id = NEW.node_id, receipt_hash = NEW.receipt_hash, kind = NEW.kind,
      private_job_id = NEW.private_job_id, amount_wei = NEW.amount_wei, gross_wei = NEW.gross_wei, held = NEW.held,
      earned_held = NEW.earned_held,
      settlement_status = NEW.settlement_status, batch_id = NEW.batch_id, earned_payee = NEW.earned_payee, payee = NEW.payee,
      settled_at = NEW.settled_at, created_at = NEW.created_at, updated_at = NEW.updated_at
    WHERE p.entry_id = OLD.entry_id AND p.settlement_status = OLD.settlement_status AND p.held = OLD.held
      AND p.batch_id IS NOT DISTINCT FROM OLD.batch_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'somebody else has changed the payout' USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NEW;
END $$;
