-- Makes the days from p_from to p_until that are not there yet, and drops those that ended before p_keep_from; says how
-- many it dropped. A day is made by itself and then attached: CREATE TABLE … PARTITION OF would wait for every reader.
-- A drop waits for who reads at this moment, but not long: the next round tries again.
CREATE OR REPLACE FUNCTION request_records_keep(p_from timestamptz, p_until timestamptz, p_keep_from timestamptz)
RETURNS integer LANGUAGE plpgsql SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
  v_day timestamptz := date_trunc('day', p_from); v_name text; v_dropped integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 75);
  WHILE v_day <= p_until LOOP
    v_name := 'request_groups_p' || to_char(v_day, 'YYYYMMDD');
    IF to_regclass(v_name) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE request_groups INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING INDEXES)', v_name);
      EXECUTE format('ALTER TABLE request_groups ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        v_name, v_day, v_day + interval '24 hours');
      -- Nobody filters by what is in their arrays, and to analyze it costs more than to write it.
      EXECUTE (SELECT format('ALTER TABLE %I ', v_name) || string_agg(format('ALTER COLUMN %I SET STATISTICS 0', a.attname), ', ')
        FROM pg_attribute a WHERE a.attrelid = 'request_groups'::regclass AND a.attnum > 0 AND a.attstorage = 'e');
    END IF;
    v_day := v_day + interval '24 hours';
  END LOOP;
  FOR v_name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'request_groups'::regclass
      AND c.relname < 'request_groups_p' || to_char(p_keep_from, 'YYYYMMDD') ORDER BY 1 LOOP
    EXECUTE format('DROP TABLE %I', v_name);
    v_dropped := v_dropped + 1;
  END LOOP;
  RETURN v_dropped;
END $$;
