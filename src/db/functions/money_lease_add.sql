-- Leases more of a customer's money as an addition to a lease that is there, as `money_lease_take` does. Where it has ended it stays so: a
-- lease that came back could be charged by a call that was given up long ago.
CREATE OR REPLACE FUNCTION money_lease_add(p_lease text, p_customer text, p_wei numeric, p_ttl_ms bigint) RETURNS numeric
LANGUAGE plpgsql AS $$
DECLARE
  v_wei numeric;
BEGIN
  SELECT least(p_wei, div(c.balance_wei - c.reserved_wei - c.leased_wei, 2)) INTO v_wei FROM customers c
    WHERE c.customer_id = p_customer AND (c.unleased_until IS NULL OR c.unleased_until < clock_timestamp()) FOR UPDATE;
  IF v_wei IS NULL OR v_wei <= 0 THEN RETURN 0; END IF;
  UPDATE money_leases l SET left_wei = l.left_wei + v_wei, ends_at = clock_timestamp() + p_ttl_ms * interval '1 ms'
    WHERE l.lease_id = p_lease AND l.customer_id = p_customer;
  IF NOT FOUND THEN RETURN 0; END IF;
  UPDATE customers c SET leased_wei = c.leased_wei + v_wei WHERE c.customer_id = p_customer;
  RETURN v_wei;
END $$;
