-- Charges are never changed and never removed. Only where their shares are, in the group or as rows, is said by it.
CREATE OR REPLACE FUNCTION charge_group_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
