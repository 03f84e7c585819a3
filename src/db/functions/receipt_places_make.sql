-- Makes the next run of places, of the oldest p_rows receipts that the log has taken and no run has, or puts eight runs of one level
-- together as one of the next (a log-structured merge tree: a lookup asks few runs, and a place is written again for each level
-- alone); false: there is nothing to do.
CREATE OR REPLACE FUNCTION receipt_places_make(p_rows integer) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_level smallint; v_from bigint; v_to bigint; v_name text; v_old text[] := '{}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(7413, 77) THEN RETURN false; END IF;
  SELECT o.level, min(o.from_seq), max(o.to_seq), array_agg(format('receipt_places_%s_%s', o.to_seq, o.level))
    INTO v_level, v_from, v_to, v_old
    FROM (SELECT r.*, row_number() OVER (PARTITION BY r.level ORDER BY r.to_seq) AS place FROM receipt_place_runs r) o
    WHERE o.place <= 8 GROUP BY o.level HAVING count(*) = 8 ORDER BY o.level LIMIT 1;
  IF FOUND THEN
    v_level := v_level + 1;
    v_name := format('receipt_places_%s_%s', v_to, v_level);
    EXECUTE format('CREATE TABLE %I AS SELECT * FROM receipt_places WHERE last_seq > %s AND last_seq <= %s ORDER BY hash_start',
      v_name, v_from, v_to);
  ELSE
    v_level := 0; v_old := '{}';
    SELECT coalesce(max(r.to_seq), 0) INTO v_from FROM receipt_place_runs r;
    SELECT g.last_seq INTO v_to FROM (
      SELECT o.last_seq, sum(o.rows) OVER (ORDER BY o.last_seq) AS rows FROM receipt_groups o
      WHERE o.last_seq > v_from AND o.last_seq <= (SELECT s.receipts_to FROM log_state s)
    ) g WHERE g.rows >= p_rows ORDER BY g.last_seq LIMIT 1;
    IF NOT FOUND THEN RETURN false; END IF;
    v_name := format('receipt_places_%s_0', v_to);
    EXECUTE format('CREATE TABLE %I AS SELECT substring(h.hashes FROM 32 * p - 31 FOR 8) AS hash_start, g.last_seq, p::smallint AS place
      FROM receipt_groups g, LATERAL (SELECT g.hashes || ''''::bytea AS hashes OFFSET 0) h, generate_series(1, g.rows) AS p WHERE g.last_seq > %s AND g.last_seq <= %s ORDER BY 1', v_name, v_from, v_to);
  END IF;
  EXECUTE format('CREATE INDEX ON %I (hash_start)', v_name);
  FOR v_place IN 1 .. coalesce(cardinality(v_old), 0) LOOP
    EXECUTE format('DROP TABLE %I', v_old[v_place]);
  END LOOP;
  DELETE FROM receipt_place_runs r WHERE r.to_seq > v_from AND r.to_seq <= v_to;
  EXECUTE format('ALTER TABLE receipt_places ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', v_name, v_from + 1, v_to + 1);
  INSERT INTO receipt_place_runs VALUES (v_from, v_to, v_level);
  RETURN true;
END $$;
