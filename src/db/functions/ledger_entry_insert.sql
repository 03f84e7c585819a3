-- Who writes into the view `ledger_entries` writes rows: gateways of the version before, while they are replaced.
CREATE OR REPLACE FUNCTION ledger_entry_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation'; END IF;
  NEW.created_at := coalesce(NEW.created_at, now());
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id,
      private_job_id, receipt_hash, reason, created_at)
    VALUES (NEW.entry_id, NEW.customer_id, NEW.kind, NEW.amount_wei, NEW.balance_after_wei, NEW.reserved_after_wei,
      NEW.reservation_id, NEW.private_job_id, NEW.receipt_hash, NEW.reason, NEW.created_at)
    RETURNING seq INTO NEW.seq;
  RETURN NEW;
END $$;
