-- Any number of requests at once: one commit for all that waited (decisions §13). Customers are locked in the order of
-- their ids, so that two gateways never wait for each other, and only then is looked at what is changed: in a function
-- every statement sees what was committed before it, in one statement nothing after its start.
--
-- Requests are met in the order given, each out of what the ones before it left. Saying one again that was met changes
-- nothing. Answers with what is not simply reserved, by its place from 1: `insufficient`, `conflict` (the id was used for
-- something else, or is closed), `no_customer`.
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
  IF p_customers[1] = ALL (p_customers) THEN
    UPDATE customers c SET reserved_wei = c.reserved_wei + s.amount
      FROM (SELECT sum(q.amount) AS amount FROM unnest(p_amounts) AS q (amount)) s
      WHERE c.customer_id = p_customers[1] AND c.reserved_wei + s.amount <= c.balance_wei
      RETURNING c.balance_wei, c.reserved_wei - s.amount, clock_timestamp() INTO v_balance, v_reserved, v_now;
    IF FOUND THEN
      IF NOT EXISTS (SELECT 1 FROM reservations o WHERE o.reservation_id = ANY (p_ids)) THEN
        INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
          SELECT q.id, p_customers[1], q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms'
          FROM unnest(p_ids, p_amounts, p_jobs) AS q (id, amount, job);
        INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
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
      WHERE c.customer_id IS NULL OR c.reserved_wei + s.amount > c.balance_wei) THEN
    FOR r IN
      SELECT q.ord::int AS ord, q.amount, q.customer, c.customer_id IS NOT NULL AS known, c.balance_wei, c.reserved_wei,
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
        WHEN r.seen THEN 'conflict' WHEN v_reserved + r.amount > r.balance_wei THEN 'insufficient' END;
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
  INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, created_at)
    SELECT q.entry, q.customer, 'reserve', q.amount, c.balance,
      c.reserved + sum(q.amount) OVER (PARTITION BY q.customer ORDER BY q.ord), q.id, q.job, v_now
    FROM q JOIN c ON c.customer_id = q.customer
    ORDER BY q.ord;
END $$;
--> statement-breakpoint
-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. Receipt, share and fee are written
-- with the debit, so that debits = payouts + fees at every commit. Answers with what is not simply settled, by its place
-- from 1: `closed`: the reservation was closed before with another outcome (released as stale, for instance), nothing is
-- debited; `unknown`.
--
-- Whoever closes a reservation has its row, and whoever comes second waits and finds it closed: so all that belongs to one
-- request alone is written first, and the customer, for whom others wait, is locked last, in the order of their ids where
-- there are several.
--
-- `settled_wei IS NULL` says the same of a reservation as `status = 'open'` (a constraint of the table), and is no reason to
-- look through the index of the open ones: until it is vacuumed that holds every reservation there ever was, and each
-- group read all of it (measured: 5 of 8 ms a group after 50,000 requests, and growing).
--
-- Planned once and not for each call: planning was a fifth of a group of one (908 and 691 µs), and nothing of a large one.
CREATE OR REPLACE FUNCTION ledger_settle(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_count int := cardinality(p_ids);
  v_whole boolean; v_places int[]; v_customers text[]; v_reserved numeric[]; v_jobs text[];
BEGIN
  WITH o AS (
    UPDATE reservations o SET status = CASE WHEN q.charged > 0 THEN 'settled' ELSE 'released' END,
        settled_wei = q.charged, receipt_hash = q.hash, closed_at = v_now
      FROM (SELECT * FROM unnest(p_ids, p_charged, p_shares, p_fees, p_hashes) WITH ORDINALITY
          AS u (id, charged, share, fee, hash, ord) ORDER BY u.id) q
      WHERE o.reservation_id = q.id AND o.settled_wei IS NULL
      RETURNING q.ord::int, o.customer_id, o.amount_wei, o.private_job_id,
        q.charged = q.share + q.fee AND q.charged >= 0 AS whole
  )
  SELECT array_agg(o.ord ORDER BY o.ord), array_agg(o.customer_id ORDER BY o.ord), array_agg(o.amount_wei ORDER BY o.ord),
      array_agg(o.private_job_id ORDER BY o.ord), bool_and(o.whole)
    INTO v_places, v_customers, v_reserved, v_jobs, v_whole FROM o;
  IF NOT v_whole THEN
    RAISE EXCEPTION 'a charge is not its share and fee' USING ERRCODE = 'check_violation';
  END IF;
  IF cardinality(v_places) IS DISTINCT FROM v_count THEN
    -- Each at its place again, and nothing where no reservation was closed.
    SELECT array_agg(o.customer ORDER BY g.ord), array_agg(o.reserved ORDER BY g.ord), array_agg(o.job ORDER BY g.ord)
      INTO v_customers, v_reserved, v_jobs
      FROM generate_series(1, v_count) AS g (ord)
      LEFT JOIN unnest(v_places, v_customers, v_reserved, v_jobs) AS o (ord, customer, reserved, job) ON o.ord = g.ord;
  END IF;
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  INSERT INTO payouts (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held, earned_payee,
      payee, created_at, updated_at)
    SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, n.payout_address, n.payout_address, v_now,
      v_now
    FROM unnest(v_customers, v_jobs, p_charged, p_shares, p_hashes, p_nodes, p_kinds, p_held, p_payouts)
      AS q (customer, job, charged, share, hash, node, kind, held, payout)
    LEFT JOIN nodes n ON n.node_id = q.node
    WHERE q.share > 0 AND q.customer IS NOT NULL;
  INSERT INTO protocol_fees (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
    SELECT q.entry, q.hash, q.job, q.fee, v_now
    FROM unnest(v_customers, v_jobs, p_fees, p_hashes, p_fee_entries) AS q (customer, job, fee, hash, entry)
    WHERE q.fee > 0 AND q.customer IS NOT NULL;
  IF NOT coalesce(v_customers[1] = ALL (v_customers), false) THEN
    PERFORM 1 FROM customers c WHERE c.customer_id = ANY (v_customers) ORDER BY c.customer_id FOR UPDATE;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
    FROM unnest(p_ids, v_customers, v_reserved, v_jobs, p_charged, p_hashes, p_debits, p_releases) WITH ORDINALITY
      AS u (id, customer, reserved, job, charged, hash, debit, release, ord)
    WHERE u.customer IS NOT NULL
    WINDOW w AS (PARTITION BY u.customer ORDER BY u.ord)
  ), c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei - s.reserved, balance_wei = c.balance_wei - s.charged
      FROM (SELECT q.customer, sum(q.reserved) AS reserved, sum(q.charged) AS charged FROM q GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei + s.reserved AS reserved,
        clock_timestamp() AS at
  )
  INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, receipt_hash, created_at)
    SELECT e.entry, q.customer, e.kind, e.amount, c.balance - q.charged_so_far,
      c.reserved - q.reserved_so_far + e.still_reserved, q.id, q.job, q.hash, c.at
    FROM q
    JOIN c ON c.customer_id = q.customer
    CROSS JOIN LATERAL (VALUES
      (1, q.debit, 'debit', q.charged, q.reserved - q.charged),
      (2, q.release, 'release', q.reserved - q.charged, 0)) AS e (turn, entry, kind, amount, still_reserved)
    WHERE e.amount > 0
    ORDER BY q.ord, e.turn;
  IF cardinality(v_places) = v_count THEN RETURN; END IF;
  RETURN QUERY
    SELECT q.ord::int, CASE WHEN o.reservation_id IS NULL THEN 'unknown' ELSE 'closed' END
    FROM unnest(p_ids, p_charged, p_hashes) WITH ORDINALITY AS q (id, charged, hash, ord)
    LEFT JOIN reservations o ON o.reservation_id = q.id
    WHERE o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash;
  -- Nobody pays for work whose reservation had ended: its receipt is not a billed one.
  IF FOUND THEN
    UPDATE receipts x SET billed = false, status = 'accepted'
      FROM unnest(p_ids, p_charged, p_hashes) AS q (id, charged, hash)
      LEFT JOIN reservations o ON o.reservation_id = q.id
      WHERE x.receipt_hash = q.hash AND x.billed
        AND (o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash);
  END IF;
END $$;
