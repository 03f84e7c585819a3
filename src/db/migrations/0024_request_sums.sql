CREATE TABLE request_sums (
	span_seconds integer NOT NULL,
	at timestamp (3) with time zone NOT NULL,
	kind text NOT NULL,
	name text NOT NULL,
	requests integer NOT NULL,
	failed integer NOT NULL,
	prompt_tokens bigint NOT NULL,
	completion_tokens bigint NOT NULL,
	buckets smallint[] NOT NULL,
	ttft_counts integer[] NOT NULL,
	duration_counts integer[] NOT NULL,
	PRIMARY KEY (span_seconds, at, kind, name)
);
--> statement-breakpoint
-- The bucket of a time in ms: each ends a tenth above the one before, so that a value read from it is off by 5 % at most.
CREATE OR REPLACE FUNCTION request_bucket(p_ms integer)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ceil(ln(greatest(p_ms, 1)::double precision) / ln(1.1::double precision))::smallint
$$;
--> statement-breakpoint
-- What the requests of a range come to, by step of time: in all, by node and by model (p_all: in all alone). At most
-- p_rows rows are read, the newest.
CREATE OR REPLACE FUNCTION request_cells(
  p_from timestamptz, p_until timestamptz, p_step interval, p_node text, p_model text, p_all boolean, p_rows integer)
RETURNS TABLE (at timestamptz, kind text, name text, requests integer, failed integer, prompt_tokens bigint,
  completion_tokens bigint, buckets smallint[], ttft_counts integer[], duration_counts integer[])
LANGUAGE sql STABLE AS $$
  WITH asked AS MATERIALIZED (
    SELECT date_bin(p_step, r.at, 'epoch') AS at, r.node_id, r.model, r.prompt_tokens, r.completion_tokens,
      r.code IS NOT NULL AND r.status <> 499 AS failed,
      request_bucket(r.ttft_ms) AS ttft, request_bucket(r.duration_ms) AS duration
    FROM request_records r
    WHERE r.at >= p_from AND r.at < p_until AND (p_node IS NULL OR r.node_id = p_node)
      AND (p_model IS NULL OR r.model = p_model)
    ORDER BY r.at DESC LIMIT p_rows
  ), named AS (
    SELECT 'all' AS kind, '' AS name, a.* FROM asked a
    UNION ALL SELECT 'node', a.node_id, a.* FROM asked a WHERE a.node_id IS NOT NULL AND NOT p_all
    UNION ALL SELECT 'model', a.model, a.* FROM asked a WHERE a.model IS NOT NULL AND NOT p_all
  ), whole AS (
    SELECT n.at, n.kind, n.name, count(*)::integer AS requests, (count(*) FILTER (WHERE n.failed))::integer AS failed,
      coalesce(sum(n.prompt_tokens), 0)::bigint AS prompt_tokens,
      coalesce(sum(n.completion_tokens), 0)::bigint AS completion_tokens
    FROM named n GROUP BY 1, 2, 3
  ), measured AS (
    SELECT n.at, n.kind, n.name, n.ttft AS bucket, 1 AS ttft, 0 AS duration FROM named n WHERE n.ttft IS NOT NULL
    UNION ALL SELECT n.at, n.kind, n.name, n.duration, 0, 1 FROM named n
  ), counted AS (
    SELECT m.at, m.kind, m.name, m.bucket, sum(m.ttft)::integer AS ttft, sum(m.duration)::integer AS duration
    FROM measured m GROUP BY 1, 2, 3, 4
  ), packed AS (
    SELECT c.at, c.kind, c.name, array_agg(c.bucket) AS buckets, array_agg(c.ttft) AS ttft_counts,
      array_agg(c.duration) AS duration_counts
    FROM counted c GROUP BY 1, 2, 3
  )
  SELECT w.at, w.kind, w.name, w.requests, w.failed, w.prompt_tokens, w.completion_tokens, p.buckets, p.ttft_counts,
    p.duration_counts
  FROM whole w JOIN packed p ON (p.at, p.kind, p.name) = (w.at, w.kind, w.name)
$$;
--> statement-breakpoint
-- Sums up the oldest hour that is not summed up yet and over by p_closed, and with the last hour of a day the day; false:
-- there is none. An hour without requests leaves a row too, so that the next call goes on behind it. Sums of days
-- before that of p_keep_from are dropped.
CREATE OR REPLACE FUNCTION request_sums_make(p_closed timestamptz, p_keep_from timestamptz)
RETURNS boolean LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
  v_hour timestamptz; v_keep timestamptz := date_trunc('day', p_keep_from);
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 76);
  SELECT max(s.at) + interval '1 hour' INTO v_hour FROM request_sums s WHERE s.span_seconds = 3600;
  IF v_hour IS NULL THEN
    SELECT min(r.at) INTO v_hour FROM request_records r;
  END IF;
  IF v_hour IS NULL THEN
    RETURN false;
  END IF;
  v_hour := date_trunc('hour', greatest(v_hour, v_keep));
  IF v_hour + interval '1 hour' > p_closed THEN
    DELETE FROM request_sums s WHERE s.at < v_keep;
    RETURN false;
  END IF;
  INSERT INTO request_sums
    SELECT 3600, c.* FROM request_cells(v_hour, v_hour + interval '1 hour', '1 hour', NULL, NULL, false, NULL) c;
  INSERT INTO request_sums VALUES (3600, v_hour, 'all', '', 0, 0, 0, 0, '{}', '{}', '{}') ON CONFLICT DO NOTHING;
  IF extract(hour FROM v_hour) = 23 THEN
    INSERT INTO request_sums
      WITH hours AS (
        SELECT * FROM request_sums s
        WHERE s.span_seconds = 3600 AND s.at >= date_trunc('day', v_hour) AND s.at <= v_hour
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
      SELECT 86400, date_trunc('day', v_hour), w.kind, w.name, w.requests, w.failed, w.prompt_tokens,
        w.completion_tokens, coalesce(p.buckets, '{}'), coalesce(p.ttft_counts, '{}'), coalesce(p.duration_counts, '{}')
      FROM whole w LEFT JOIN packed p ON (p.kind, p.name) = (w.kind, w.name);
  END IF;
  RETURN true;
END $$;
