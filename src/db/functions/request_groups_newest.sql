-- The newest groups of p_requests requests, of those that may have a request from p_from to p_last with all of p_names and a first
-- token as late as p_ttft. Who looks through them has seen all such requests that are newer than `reach`, which is that of the
-- next group; NULL: there is none.
--
-- Day by day, the newest first, so that days are left alone once there are enough. Groups with a name are found by the index of
-- names (`+ interval '0'` keeps the planner from the others): to ask each group in its turn is eight times as dear as to fetch
-- one, and the planner takes it for cheap.
CREATE OR REPLACE FUNCTION request_groups_newest(p_from timestamptz, p_last timestamptz, p_names text[], p_ttft integer, p_requests integer)
RETURNS TABLE (minute timestamptz, group_id text, reach timestamptz) LANGUAGE plpgsql STABLE ROWS 50
SET enable_seqscan = off SET timezone = 'UTC' AS $$
DECLARE
  v_end timestamptz := CASE WHEN isfinite(p_last) THEN date_trunc('minute', p_last) + interval '1 minute' ELSE p_last END;
  v_newest text := CASE WHEN cardinality(p_names) > 0 THEN 'g.newest + interval ''0''' ELSE 'g.newest' END;
  v_conditions text; v_minutes timestamptz[] := '{}'; v_ids text[] := '{}'; v_reach timestamptz; v_left integer := p_requests;
  v_day text; r record;
BEGIN
  v_conditions := format('%1$s >= $1 AND %1$s < $2 AND g.oldest <= $3', v_newest)
    || CASE WHEN cardinality(p_names) > 0 THEN ' AND g.names @> $4' ELSE '' END
    || CASE WHEN p_ttft IS NOT NULL THEN ' AND g.ttft_most >= $5' ELSE '' END;
  <<days>>
  FOR v_day IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'request_groups'::regclass
      AND (NOT isfinite(p_from) OR c.relname >= 'request_groups_p' || to_char(p_from, 'YYYYMMDD'))
      AND (NOT isfinite(p_last) OR c.relname <= 'request_groups_p' || to_char(p_last, 'YYYYMMDD'))
    ORDER BY 1 DESC LOOP
    FOR r IN EXECUTE format('SELECT g.minute, g.group_id, g.newest, g.rows FROM %I g WHERE %s ORDER BY %s DESC LIMIT $6',
      v_day, v_conditions, v_newest) USING p_from, v_end, p_last, p_names, p_ttft, v_left + 1 LOOP
      IF r.rows > v_left THEN
        v_reach := r.newest;
        EXIT days;
      END IF;
      v_left := v_left - r.rows;
      v_minutes := v_minutes || r.minute;
      v_ids := v_ids || r.group_id;
    END LOOP;
  END LOOP;
  RETURN QUERY SELECT u.minute, u.id, v_reach FROM unnest(v_minutes, v_ids) AS u (minute, id);
END $$;
