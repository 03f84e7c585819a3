-- Makes ordinary reservations of what a process has reserved in memory under its lease, and ends the lease with p_end. From then on
-- they are like those that `ledger_reserve` makes. Sent again, it changes nothing. Answers whether the lease was there, with enough for them:
-- one with less is older than its gateway believes, after a fail-over to a standby that was behind, and ends.
CREATE OR REPLACE FUNCTION money_lease_reserve(p_lease text, p_customer text, p_end boolean, p_ids text[], p_amounts numeric[],
  p_entries text[], p_ttl_ms bigint) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_balance numeric; v_reserved numeric; v_left numeric; v_sum numeric; v_now timestamptz;
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  SELECT c.balance_wei, c.reserved_wei INTO v_balance, v_reserved FROM customers c WHERE c.customer_id = p_customer FOR UPDATE;
  SELECT l.left_wei INTO v_left FROM money_leases l WHERE l.lease_id = p_lease AND l.customer_id = p_customer FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  SELECT coalesce(sum(q.amount), 0) INTO v_sum FROM unnest(p_ids, p_amounts) AS q (id, amount)
    WHERE (SELECT true FROM reservations o WHERE o.reservation_id = q.id) IS NULL;
  v_now := clock_timestamp();
  IF v_sum > v_left THEN
    DELETE FROM money_leases l WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left WHERE c.customer_id = p_customer;
    RETURN false;
  END IF;
  IF p_end THEN
    DELETE FROM money_leases l WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left, reserved_wei = c.reserved_wei + v_sum WHERE c.customer_id = p_customer;
  ELSE
    UPDATE money_leases l SET left_wei = l.left_wei - v_sum WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_sum, reserved_wei = c.reserved_wei + v_sum WHERE c.customer_id = p_customer;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT u.id, u.amount, u.entry, u.ord FROM unnest(p_ids, p_amounts, p_entries) WITH ORDINALITY AS u (id, amount, entry, ord)
    WHERE (SELECT true FROM reservations o WHERE o.reservation_id = u.id) IS NULL
  ), o AS (
    INSERT INTO reservations (reservation_id, customer_id, amount_wei, created_at, expires_at)
      SELECT q.id, p_customer, q.amount, v_now, v_now + p_ttl_ms * interval '1 ms' FROM q
  )
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id, created_at)
    SELECT q.entry, p_customer, 'reserve', q.amount, v_balance, v_reserved + sum(q.amount) OVER (ORDER BY q.ord), q.id, v_now
    FROM q ORDER BY q.ord;
  RETURN true;
END $$;
