-- What the requests of a range come to, by step of time: in all, by node and by model (p_all: in all alone). Groups of
-- requests are read from the newest on until p_rows requests are.
CREATE OR REPLACE FUNCTION request_cells(
  p_from timestamptz, p_until timestamptz, p_step interval, p_node text, p_model text, p_all boolean, p_rows integer)
RETURNS TABLE (at timestamptz, kind text, name text, requests integer, failed integer, prompt_tokens bigint,
  completion_tokens bigint, buckets smallint[], ttft_counts integer[], duration_counts integer[])
LANGUAGE sql STABLE AS $$
  WITH newest AS (
    SELECT g.minute, g.group_id, sum(g.rows) OVER (ORDER BY g.newest DESC, g.group_id) - g.rows AS newer
    FROM request_groups g
    WHERE g.minute >= date_trunc('minute', p_from) AND g.minute < p_until AND g.newest >= p_from AND g.oldest < p_until
      AND g.newest < p_until + interval '1 minute'
      AND (p_node IS NULL OR g.names @> ARRAY['node:' || p_node]) AND (p_model IS NULL OR g.names @> ARRAY['model:' || p_model])
  ), asked AS MATERIALIZED (
    SELECT date_bin(p_step, u.at, 'epoch') AS at, r.node_id, r.model, r.prompt_tokens, r.completion_tokens,
      r.code IS NOT NULL AND r.status <> 499 AS failed,
      request_bucket(r.ttft_ms) AS ttft, request_bucket(r.duration_ms) AS duration
    FROM newest JOIN request_groups g USING (minute, group_id),
      -- Once for a group and not for each of its requests.
      LATERAL (SELECT g.shared[8] AS node_id, g.shared[7] AS model, g.shared[15]::integer AS prompt_tokens,
        g.shared[16]::integer AS completion_tokens, g.shared[19] AS code, g.shared[18]::smallint AS status,
        g.shared[13]::integer AS ttft_ms, g.shared[14]::integer AS duration_ms OFFSET 0) s,
      unnest(g.at_ms, g.node_id, g.model, g.prompt_tokens, g.completion_tokens, g.code, g.status, g.ttft_ms, g.duration_ms)
        AS e (at_ms, node_id, model, prompt_tokens, completion_tokens, code, status, ttft_ms, duration_ms),
      LATERAL (SELECT g.minute + e.at_ms * interval '1 millisecond' AS at) u,
      LATERAL (SELECT coalesce(e.node_id, s.node_id) AS node_id, coalesce(e.model, s.model) AS model,
        coalesce(e.prompt_tokens, s.prompt_tokens) AS prompt_tokens,
        coalesce(e.completion_tokens, s.completion_tokens) AS completion_tokens, coalesce(e.code, s.code) AS code,
        coalesce(e.status, s.status) AS status, coalesce(e.ttft_ms, s.ttft_ms) AS ttft_ms,
        coalesce(e.duration_ms, s.duration_ms) AS duration_ms) r
    WHERE (p_rows IS NULL OR newer < p_rows) AND u.at >= p_from AND u.at < p_until
      AND (p_node IS NULL OR r.node_id = p_node) AND (p_model IS NULL OR r.model = p_model)
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
