-- Hours that requests were written for after they were summed up: a row for each group of such requests.
CREATE TABLE request_sums_late (
	at timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
-- The bucket of a time in ms: each ends a tenth above the one before, so that a value read from it is off by 5 % at most.
-- NULL has none: what was not measured is in no percentile. -1 is that of 0.
CREATE OR REPLACE FUNCTION request_bucket(p_ms integer)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN p_ms > 0 THEN ceil(ln(p_ms::double precision) / ln(1.1::double precision))::smallint
    WHEN p_ms IS NOT NULL THEN -1::smallint END
$$;
--> statement-breakpoint
-- A group of requests: its head, and the text of an array for each column; an empty one stands in `shared` or is NULL in every
-- row. It waits for no disk. A group that is sent again has what it had before, in its order, and perhaps more behind it: the
-- longer one stays. An hour that may have been summed up by now is marked, so that it is summed up again: no clock is so far off.
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
    nullif(c[21], '')::text[], nullif(c[22], '')::jsonb[])
  ON CONFLICT DO NOTHING;
  IF p_minute::timestamptz < now() - interval '15 minutes' THEN
    INSERT INTO request_sums_late VALUES (date_bin('1 hour', p_minute::timestamptz, 'epoch'));
  END IF;
END $$;
--> statement-breakpoint
-- Sums up one hour, and its day with it where the day's last hour is over; false: there is nothing to sum up. First come hours that
-- requests were written for after they were summed up, then the oldest one that is not summed up yet and over by p_closed. An
-- hour without requests leaves a row too, so that the next call goes on behind it. Sums of days before that of p_keep_from are
-- dropped.
CREATE OR REPLACE FUNCTION request_sums_make(p_closed timestamptz, p_keep_from timestamptz)
RETURNS boolean LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
  v_hour timestamptz; v_next timestamptz; v_day timestamptz; v_keep timestamptz := date_trunc('day', p_keep_from);
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 76);
  SELECT max(s.at) + interval '1 hour' INTO v_next FROM request_sums s WHERE s.span_seconds = 3600;
  -- Those of hours that come anyway, or of rows that are gone.
  DELETE FROM request_sums_late l WHERE v_next IS NULL OR l.at >= v_next OR l.at < v_keep;
  SELECT min(l.at) INTO v_hour FROM request_sums_late l;
  IF v_hour IS NOT NULL THEN
    DELETE FROM request_sums_late l WHERE l.at = v_hour;
    -- After a restore the sums are there and the rows are not.
    IF (SELECT coalesce(sum(g.rows), 0) FROM request_groups g WHERE g.minute >= v_hour AND g.minute < v_hour + interval '1 hour')
      < (SELECT s.requests FROM request_sums s WHERE (s.span_seconds, s.at, s.kind, s.name) = (3600, v_hour, 'all', '')) THEN
      RETURN true;
    END IF;
    DELETE FROM request_sums s WHERE s.span_seconds = 3600 AND s.at = v_hour;
  ELSE
    IF v_next IS NULL THEN
      SELECT min(g.newest) INTO v_next FROM request_groups g;
    END IF;
    IF v_next IS NULL THEN
      RETURN false;
    END IF;
    v_hour := date_trunc('hour', greatest(v_next, v_keep));
    IF v_hour + interval '1 hour' > p_closed THEN
      DELETE FROM request_sums s WHERE s.at < v_keep;
      RETURN false;
    END IF;
  END IF;
  INSERT INTO request_sums
    SELECT 3600, c.* FROM request_cells(v_hour, v_hour + interval '1 hour', '1 hour', NULL, NULL, false, NULL) c;
  INSERT INTO request_sums VALUES (3600, v_hour, 'all', '', 0, 0, 0, 0, '{}', '{}', '{}') ON CONFLICT DO NOTHING;
  v_day := date_trunc('day', v_hour);
  DELETE FROM request_sums s WHERE s.span_seconds = 86400 AND s.at = v_day;
  IF FOUND OR extract(hour FROM v_hour) = 23 THEN
    INSERT INTO request_sums
      WITH hours AS (
        SELECT * FROM request_sums s
        WHERE s.span_seconds = 3600 AND s.at >= v_day AND s.at < v_day + interval '1 day'
      ), counted AS (
        SELECT h.kind, h.name, u.bucket, sum(u.ttft)::integer AS ttft, sum(u.duration)::integer AS duration
        FROM hours h, unnest(h.buckets, h.ttft_counts, h.duration_counts) AS u (bucket, ttft, duration) GROUP BY 1, 2, 3
      ), packed AS (
        SELECT c.kind, c.name, array_agg(c.bucket) AS buckets, array_agg(c.ttft) AS ttft_counts,
          array_agg(c.duration) AS duration_counts
        FROM counted c GROUP BY 1, 2
      ), whole AS (
        SELECT h.kind, h.name, sum(h.requests)::integer AS requests, sum(h.failed)::integer AS failed,
          sum(h.prompt_tokens)::bigint AS prompt_tokens, sum(h.completion_tokens)::bigint AS completion_tokens
        FROM hours h GROUP BY 1, 2
      )
      SELECT 86400, v_day, w.kind, w.name, w.requests, w.failed, w.prompt_tokens,
        w.completion_tokens, coalesce(p.buckets, '{}'), coalesce(p.ttft_counts, '{}'), coalesce(p.duration_counts, '{}')
      FROM whole w LEFT JOIN packed p ON (p.kind, p.name) = (w.kind, w.name);
  END IF;
  RETURN true;
END $$;
--> statement-breakpoint
-- Every request without a first token was counted as one of 1 ms. Hours whose rows are still there are summed up again, and their
-- days with them; of the others no first token is known any more.
INSERT INTO request_sums_late
	SELECT s.at FROM request_sums s
	JOIN (SELECT date_bin('1 hour', minute, 'epoch') AS at, sum(rows) AS rows FROM request_groups GROUP BY 1) k ON k.at = s.at
	WHERE s.span_seconds = 3600 AND s.kind = 'all' AND s.requests > 0 AND k.rows >= s.requests;
--> statement-breakpoint
UPDATE request_sums SET ttft_counts = array_fill(0, ARRAY[cardinality(ttft_counts)]) WHERE cardinality(ttft_counts) > 0;
--> statement-breakpoint
-- A start must not wait for weeks of a busy gateway: what is left, it sums up while it serves, and reads from the rows until then.
DO $$
BEGIN
	WHILE clock_timestamp() < transaction_timestamp() + interval '10 seconds' LOOP
		EXIT WHEN NOT request_sums_make('-infinity', '-infinity');
	END LOOP;
END $$;
