CREATE OR REPLACE FUNCTION directory_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE directory_versions SET version = version + 1 WHERE topic = TG_ARGV[0];
  PERFORM pg_notify('penstock_changes', TG_ARGV[0]);
  RETURN NULL;
END $$;
