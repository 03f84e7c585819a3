-- Who changes the view `protocol_fees` changes rows, as with `payouts`. What is in a group is never given back.
CREATE OR REPLACE FUNCTION fee_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.status := coalesce(NEW.status, 'earned');
    NEW.created_at := coalesce(NEW.created_at, now());
    INSERT INTO fee_rows (entry_id, receipt_hash, private_job_id, amount_wei, status, created_at)
      VALUES (NEW.entry_id, NEW.receipt_hash, NEW.private_job_id, NEW.amount_wei, NEW.status, NEW.created_at);
    RETURN NEW;
  END IF;
  UPDATE fee_rows f SET status = NEW.status WHERE f.entry_id = OLD.entry_id AND f.status = OLD.status;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the fee is part of a group, or somebody else has changed it' USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NEW;
END $$;
