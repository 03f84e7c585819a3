-- A group of requests: its head, and the text of an array for each column; an empty one stands in `shared` or is NULL in every
-- row. It waits for no disk. A group that is sent again has what it had before, in its order, and perhaps more behind it: the
-- longer one stays. A gateway of the version before gives no tags: c[23] is NULL then. An hour that may have been summed up by now is
-- marked, so that it is summed up again: no clock is so far off.
CREATE OR REPLACE FUNCTION request_group_insert(p_minute text, p_group_id text, p_oldest text, p_newest text, p_rows integer,
  p_names text, p_ttft_most integer, p_shared text, c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM request_groups g
    WHERE g.minute = p_minute::timestamptz AND g.group_id = p_group_id AND g.rows < p_rows;
  INSERT INTO request_groups VALUES (p_minute::timestamptz, p_group_id, p_oldest::timestamptz, p_newest::timestamptz, p_rows,
    p_names::text[], p_ttft_most, p_shared::text[],
    nullif(c[1], '')::text[], nullif(c[2], '')::integer[], nullif(c[3], '')::text[], nullif(c[4], '')::text[],
    nullif(c[5], '')::text[], nullif(c[6], '')::boolean[], nullif(c[7], '')::text[], nullif(c[8], '')::text[],
    nullif(c[9], '')::smallint[], nullif(c[10], '')::integer[], nullif(c[11], '')::integer[], nullif(c[12], '')::integer[],
    nullif(c[13], '')::integer[], nullif(c[14], '')::integer[], nullif(c[15], '')::integer[], nullif(c[16], '')::integer[],
    nullif(c[17], '')::smallint[], nullif(c[18], '')::smallint[], nullif(c[19], '')::text[], nullif(c[20], '')::numeric[],
    nullif(c[21], '')::text[], nullif(c[22], '')::jsonb[], nullif(c[23], '')::text[])
  ON CONFLICT DO NOTHING;
  IF p_minute::timestamptz < now() - interval '15 minutes' THEN
    INSERT INTO request_sums_late VALUES (date_bin('1 hour', p_minute::timestamptz, 'epoch'));
  END IF;
END $$;
