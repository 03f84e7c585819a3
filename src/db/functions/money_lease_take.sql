-- Leases more of a customer's money to one process of a gateway, as an addition to its lease of this id or as a new one
-- (docs/decisions/0051): at most half of what nobody has reserved or leased. Answers how much; 0: none, because there is too little,
-- because somebody has just asked what is reserved, or because money is not leased yet.
CREATE OR REPLACE FUNCTION money_lease_take(p_lease text, p_customer text, p_wei numeric, p_ttl_ms bigint) RETURNS numeric
LANGUAGE plpgsql AS $$
DECLARE
  v_wei numeric; v_ends_at timestamptz;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM money_lease_start s WHERE s.begins_at <= clock_timestamp()) THEN RETURN 0; END IF;
  SELECT least(p_wei, div(c.balance_wei - c.reserved_wei - c.leased_wei, 2)) INTO v_wei FROM customers c
    WHERE c.customer_id = p_customer AND (c.unleased_until IS NULL OR c.unleased_until < clock_timestamp()) FOR UPDATE;
  IF v_wei IS NULL OR v_wei <= 0 THEN RETURN 0; END IF;
  v_ends_at := clock_timestamp() + p_ttl_ms * interval '1 ms';
  UPDATE customers c SET leased_wei = c.leased_wei + v_wei WHERE c.customer_id = p_customer;
  INSERT INTO money_leases AS l (lease_id, customer_id, left_wei, ends_at) VALUES (p_lease, p_customer, v_wei, v_ends_at)
    ON CONFLICT (lease_id) DO UPDATE SET left_wei = l.left_wei + v_wei, ends_at = v_ends_at;
  RETURN v_wei;
END $$;
