-- Sums up one hour, and its day with it where the day's last hour is over or a later day is summed up; false: there is nothing to sum up. First come hours that
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
  -- A reader takes the days before the newest one that is summed up from their sums alone.
  IF FOUND OR extract(hour FROM v_hour) = 23
    OR EXISTS (SELECT FROM request_sums s WHERE s.span_seconds = 86400 AND s.at > v_day) THEN
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
-- Days that lost theirs: their hours are summed up again, and the day with them.
INSERT INTO request_sums_late
  SELECT DISTINCT s.at FROM request_sums s
  WHERE s.span_seconds = 3600 AND s.requests > 0 AND s.kind = 'all'
    AND s.at < (SELECT max(d.at) FROM request_sums d WHERE d.span_seconds = 86400)
    AND NOT EXISTS (SELECT FROM request_sums d WHERE d.span_seconds = 86400 AND d.at = date_bin('1 day', s.at, 'epoch'));
