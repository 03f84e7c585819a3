-- Ends leases that nobody has renewed, of one customer or (NULL) of any: their money is free again. Answers their number.
-- Customers are locked in the order of their ids, and then leases, as by whoever else touches both.
CREATE OR REPLACE FUNCTION money_leases_end(p_customer text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_customer text; v_left numeric; v_count int; v_ended int := 0;
BEGIN
  FOR v_customer IN
    SELECT DISTINCT l.customer_id FROM money_leases l
    WHERE l.ends_at < clock_timestamp() AND (p_customer IS NULL OR l.customer_id = p_customer) ORDER BY l.customer_id
  LOOP
    PERFORM 1 FROM customers c WHERE c.customer_id = v_customer FOR UPDATE;
    WITH l AS (
      DELETE FROM money_leases l WHERE l.customer_id = v_customer AND l.ends_at < clock_timestamp() RETURNING l.left_wei
    )
    SELECT count(*), sum(l.left_wei) INTO v_count, v_left FROM l;
    IF v_count = 0 THEN CONTINUE; END IF;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left WHERE c.customer_id = v_customer;
    v_ended := v_ended + v_count;
  END LOOP;
  RETURN v_ended;
END $$;
