-- Requests at once. A lease that its holder did not renew is free again; one that returns says what it really uses.
CREATE OR REPLACE FUNCTION sync_slot_lease(
  p_customer text, p_lease text, p_seq bigint, p_slots bigint,
  p_spent bigint, p_need bigint, p_want bigint, p_close boolean, p_ttl_ms bigint, p_asking_ms double precision
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint; v_next bigint; v_alone boolean; v_reserve boolean; v_others bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, hashtext(p_customer));
  DELETE FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id <> p_lease AND l.expires_at <= clock_timestamp();
  SELECT l.seq INTO v_seq FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id = p_lease;
  IF FOUND AND p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(bool_or(l.cap > l.spent OR l.expires_at <
    clock_timestamp() + (p_ttl_ms - p_asking_ms) * interval '1 ms'), false), coalesce(sum(l.cap), 0)::bigint
    INTO v_alone, v_reserve, v_others FROM slot_leases l
    WHERE l.customer_id = p_customer AND l.lease_id <> p_lease;
  IF p_close THEN
    v_next := p_spent;
    DELETE FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id = p_lease;
  ELSE
    v_next := lease_grant(p_spent, p_need, p_want, greatest(p_slots - v_others, 0), v_alone);
    INSERT INTO slot_leases AS l (customer_id, cap, spent, lease_id, seq, expires_at)
      VALUES (p_customer, v_next, p_spent, p_lease, p_seq, clock_timestamp() + p_ttl_ms * interval '1 ms')
      ON CONFLICT (customer_id, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_reserve THEN PERFORM pg_notify('penstock_limits', p_lease || ' slots:' || p_customer); END IF;
  RETURN QUERY SELECT v_next, greatest(p_slots - v_others - v_next, 0)::double precision, v_reserve, 0::double precision;
END $$;
