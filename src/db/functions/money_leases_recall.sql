-- Asks all who lease money of a customer to end their leases, and lets no lease begin for a while, so that what the row says is
-- reserved is all that is. Answers how many leases there still are.
CREATE OR REPLACE FUNCTION money_leases_recall(p_customer text, p_pause_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int;
BEGIN
  PERFORM money_leases_end(p_customer);
  SELECT count(*) INTO v_count FROM money_leases l WHERE l.customer_id = p_customer;
  IF v_count = 0 THEN RETURN 0; END IF;
  UPDATE customers c SET unleased_until = clock_timestamp() + p_pause_ms * interval '1 ms' WHERE c.customer_id = p_customer;
  PERFORM pg_notify('penstock_money', p_customer);
  RETURN v_count;
END $$;
