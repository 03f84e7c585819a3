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
