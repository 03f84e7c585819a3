-- A token bucket. What is leased and not yet spent counts as still in it, so the bucket never refills beyond its
-- capacity less that: over any time T at most capacity + T × rate are spent, whoever spends them.
CREATE OR REPLACE FUNCTION sync_rate_lease(
  p_key text, p_lease text, p_seq bigint, p_capacity double precision, p_per_second double precision,
  p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
DECLARE
  v_level double precision; v_at timestamptz; v_now timestamptz; v_cap bigint; v_seq bigint; v_next bigint;
  v_alone boolean; v_out bigint;
BEGIN
  SELECT b.level, b.at INTO v_level, v_at FROM rate_buckets b WHERE b.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO rate_buckets (key, level, at) VALUES (p_key, p_capacity, clock_timestamp()) ON CONFLICT DO NOTHING;
    SELECT b.level, b.at INTO v_level, v_at FROM rate_buckets b WHERE b.key = p_key FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
  END IF;
  v_now := clock_timestamp();
  DELETE FROM rate_leases l WHERE l.key = p_key AND l.lease_id <> p_lease AND l.expires_at <= v_now;
  SELECT l.cap, l.seq INTO v_cap, v_seq FROM rate_leases l WHERE l.key = p_key AND l.lease_id = p_lease;
  IF NOT FOUND THEN
    IF NOT p_fresh THEN RETURN; END IF;
    v_cap := 0; v_seq := -1;
  END IF;
  IF p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(sum(greatest(l.cap - l.spent, 0)), 0)::bigint INTO v_alone, v_out FROM rate_leases l
    WHERE l.key = p_key AND l.lease_id <> p_lease;
  v_level := greatest(0, least(
    p_capacity - v_out - greatest(v_cap - p_spent, 0),
    v_level + greatest(0, extract(epoch FROM v_now - v_at)) * p_per_second));
  IF p_close THEN v_next := p_spent;
  ELSE v_next := lease_grant(p_spent, p_need, p_want,
    least(v_cap + floor(v_level + 1e-6)::bigint, p_spent + floor(p_capacity)::bigint), v_alone);
  END IF;
  v_level := greatest(0, v_level + v_cap - v_next);
  UPDATE rate_buckets b SET level = v_level, at = v_now WHERE b.key = p_key;
  IF p_close THEN
    DELETE FROM rate_leases l WHERE l.key = p_key AND l.lease_id = p_lease;
  ELSE
    INSERT INTO rate_leases AS l (key, cap, spent, lease_id, seq, expires_at)
      VALUES (p_key, v_next, p_spent, p_lease, p_seq, v_now + p_ttl_ms * interval '1 ms')
      ON CONFLICT (key, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_out > 0 THEN PERFORM pg_notify('penstock_limits', p_lease || ' rate:' || p_key); END IF;
  RETURN QUERY SELECT v_next, v_level, v_out > 0, greatest(0, 1 - v_level) / p_per_second * 1000;
END $$;
