-- Makes the weeks from p_from to p_until that are not there yet; says how many tables it made. A table is made by itself
-- and then attached: CREATE TABLE … PARTITION OF would wait for every reader, and every writer would wait for it.
CREATE OR REPLACE FUNCTION audit_ensure_partitions(p_from timestamptz, p_until timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  -- A Monday.
  v_origin constant timestamptz := '2024-01-01T00:00:00Z';
  v_week timestamptz; v_parent text; v_name text; v_made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 71);
  FOREACH v_parent IN ARRAY ARRAY['admin_access_events', 'admin_approval_events', 'admin_command_events'] LOOP
    v_week := date_bin('7 days', p_from, v_origin);
    WHILE v_week <= p_until LOOP
      v_name := v_parent || '_p' || to_char(v_week AT TIME ZONE 'UTC', 'YYYYMMDD');
      IF to_regclass(v_name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', v_name, v_parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
          v_parent, v_name, v_week, v_week + interval '168 hours');
        v_made := v_made + 1;
      END IF;
      v_week := v_week + interval '168 hours';
    END LOOP;
  END LOOP;
  RETURN v_made;
END $$;
