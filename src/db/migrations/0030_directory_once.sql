-- Once per transaction: a row that this one has moved is moved already, and a hundred thousand moves of one row take minutes.
CREATE OR REPLACE FUNCTION directory_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE directory_versions SET version = version + 1
    WHERE topic = TG_ARGV[0] AND xmin <> pg_current_xact_id()::xid;
  IF FOUND THEN
    PERFORM pg_notify('penstock_changes', TG_ARGV[0]);
  END IF;
  RETURN NULL;
END $$;
