-- Any number of requests at once: one commit for all that waited (decisions §13). Customers are locked in the order of
-- their ids, so that two gateways never wait for each other, and only then is looked at what is changed: in a function
-- every statement sees what was committed before it, in one statement nothing after its start.
--
-- Requests are met in the order given, each out of what the ones before it left. Saying one again that was met changes
-- nothing. Answers with what is not simply reserved, by its place from 1: `insufficient`, `conflict` (the id was used for
-- something else, or is closed), `no_customer`.
--
-- The lock of the view is for the log of a gateway of the version before, as in `ledger_charge`.
--
-- What is leased (docs/decisions/0051) is no more there than what is reserved.
--
-- The usual group is of one customer who has enough: then the one statement that sets the money aside also locks and looks.
CREATE OR REPLACE FUNCTION ledger_reserve(p_ids text[], p_customers text[], p_amounts numeric[], p_entries text[], p_jobs text[],
  p_ttl_ms bigint)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  r record; v_now timestamptz; v_customer text; v_balance numeric; v_reserved numeric; v_refused int[] := '{}';
  v_answer text;
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  IF p_customers[1] = ALL (p_customers) THEN
    UPDATE customers c SET reserved_wei = c.reserved_wei + s.amount
      FROM (SELECT sum(q.amount) AS amount FROM unnest(p_amounts) AS q (amount)) s
      WHERE c.customer_id = p_customers[1] AND c.reserved_wei + c.leased_wei + s.amount <= c.balance_wei
      RETURNING c.balance_wei, c.reserved_wei - s.amount, clock_timestamp() INTO v_balance, v_reserved, v_now;
    IF FOUND THEN
      IF NOT EXISTS (SELECT 1 FROM reservations o WHERE o.reservation_id = ANY (p_ids)) THEN
        INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
          SELECT q.id, p_customers[1], q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms'
          FROM unnest(p_ids, p_amounts, p_jobs) AS q (id, amount, job);
        INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
            reservation_id, private_job_id, created_at)
          SELECT q.entry, p_customers[1], 'reserve', q.amount, v_balance, v_reserved + sum(q.amount) OVER (ORDER BY q.ord),
            q.id, q.job, v_now
          FROM unnest(p_ids, p_amounts, p_entries, p_jobs) WITH ORDINALITY AS q (id, amount, entry, job, ord)
          ORDER BY q.ord;
        RETURN;
      END IF;
      UPDATE customers c SET reserved_wei = v_reserved WHERE c.customer_id = p_customers[1];
    END IF;
  END IF;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  v_now := clock_timestamp();
  IF EXISTS (SELECT 1 FROM reservations o WHERE o.reservation_id = ANY (p_ids)) OR EXISTS (
      SELECT 1 FROM (SELECT q.customer, sum(q.amount) AS amount FROM unnest(p_customers, p_amounts) AS q (customer, amount)
        GROUP BY q.customer) s
      LEFT JOIN customers c ON c.customer_id = s.customer
      WHERE c.customer_id IS NULL OR c.reserved_wei + c.leased_wei + s.amount > c.balance_wei) THEN
    FOR r IN
      SELECT q.ord::int AS ord, q.amount, q.customer, c.customer_id IS NOT NULL AS known, c.balance_wei, c.leased_wei, c.reserved_wei,
        o.reservation_id IS NOT NULL AS seen,
        o.status = 'open' AND o.customer_id = q.customer AND o.amount_wei = q.amount AS same
      FROM unnest(p_ids, p_customers, p_amounts) WITH ORDINALITY AS q (id, customer, amount, ord)
      LEFT JOIN customers c ON c.customer_id = q.customer
      LEFT JOIN reservations o ON o.reservation_id = q.id
      ORDER BY q.customer, q.ord
    LOOP
      IF r.known AND r.customer IS DISTINCT FROM v_customer THEN
        v_customer := r.customer; v_reserved := r.reserved_wei;
      END IF;
      v_answer := CASE WHEN NOT r.known THEN 'no_customer' WHEN r.seen AND r.same THEN 'reserved'
        WHEN r.seen THEN 'conflict' WHEN v_reserved + r.leased_wei + r.amount > r.balance_wei THEN 'insufficient' END;
      IF v_answer IS NULL THEN v_reserved := v_reserved + r.amount; CONTINUE; END IF;
      v_refused := v_refused || r.ord;
      IF v_answer <> 'reserved' THEN place := r.ord; outcome := v_answer; RETURN NEXT; END IF;
    END LOOP;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT * FROM unnest(p_ids, p_customers, p_amounts, p_entries, p_jobs)
      WITH ORDINALITY AS u (id, customer, amount, entry, job, ord)
    WHERE NOT u.ord = ANY (v_refused)
  ), c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei + s.amount
      FROM (SELECT q.customer, sum(q.amount) AS amount FROM q GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei AS balance, c.reserved_wei - s.amount AS reserved
  ), o AS (
    INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
      SELECT q.id, q.customer, q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms' FROM q
  )
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, created_at)
    SELECT q.entry, q.customer, 'reserve', q.amount, c.balance,
      c.reserved + sum(q.amount) OVER (PARTITION BY q.customer ORDER BY q.ord), q.id, q.job, v_now
    FROM q JOIN c ON c.customer_id = q.customer
    ORDER BY q.ord;
END $$;
