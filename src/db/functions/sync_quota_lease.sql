-- The functions sync_…_lease state a lease anew, in absolute numbers, so that a message whose answer was lost can be sent
-- again. No row: the lease is not known (any more). `others`: somebody else holds a reserve, or may have come by one
-- since it last spoke, and was asked for it; `p_asking_ms` is for how long the asker has been asking, so that who has
-- answered meanwhile and has none is not waited for.
CREATE OR REPLACE FUNCTION sync_quota_lease(
  p_customer text, p_day date, p_lease text, p_seq bigint, p_quota bigint,
  p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint,
  p_asking_ms double precision
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
DECLARE
  v_taken bigint; v_cap bigint; v_seq bigint; v_next bigint; v_alone boolean; v_reserve boolean;
BEGIN
  SELECT q.taken INTO v_taken FROM quota_days q WHERE q.customer_id = p_customer AND q.day = p_day FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO quota_days (customer_id, day) VALUES (p_customer, p_day) ON CONFLICT DO NOTHING;
    SELECT q.taken INTO v_taken FROM quota_days q WHERE q.customer_id = p_customer AND q.day = p_day FOR UPDATE;
  END IF;
  SELECT l.cap, l.seq INTO v_cap, v_seq FROM quota_leases l
    WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id = p_lease;
  IF NOT FOUND THEN
    IF NOT p_fresh THEN RETURN; END IF;
    v_cap := 0; v_seq := -1;
  END IF;
  IF p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(bool_or(l.cap > l.spent OR l.expires_at <
    clock_timestamp() + (p_ttl_ms - p_asking_ms) * interval '1 ms'), false) INTO v_alone, v_reserve FROM quota_leases l
    WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id <> p_lease AND l.expires_at > clock_timestamp();
  IF p_close THEN v_next := p_spent;
  ELSE v_next := lease_grant(p_spent, p_need, p_want, v_cap + p_quota - v_taken, v_alone);
  END IF;
  -- Giving back may be forgotten by a crash; taking must not be.
  IF v_next <= v_cap THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  IF v_next <> v_cap THEN
    v_taken := v_taken + v_next - v_cap;
    UPDATE quota_days q SET taken = v_taken WHERE q.customer_id = p_customer AND q.day = p_day;
  END IF;
  IF p_close THEN
    DELETE FROM quota_leases l WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id = p_lease;
  ELSE
    INSERT INTO quota_leases AS l (customer_id, day, cap, spent, lease_id, seq, expires_at)
      VALUES (p_customer, p_day, v_next, p_spent, p_lease, p_seq, clock_timestamp() + p_ttl_ms * interval '1 ms')
      ON CONFLICT (customer_id, day, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_reserve THEN
    PERFORM pg_notify('penstock_limits', p_lease || ' quota:' || p_customer || ':' || p_day);
  END IF;
  RETURN QUERY SELECT v_next, greatest(p_quota - v_taken, 0)::double precision, v_reserve, 0::double precision;
END $$;
