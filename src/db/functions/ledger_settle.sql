-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. Receipt, share and fee are written
-- with the debit, so that debits = payouts + fees at every commit. Answers with what is not simply settled, by its place
-- from 1: `closed`: the reservation was closed before with another outcome (released as stale, for instance), nothing is
-- debited; `unknown`.
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
  v_now timestamptz;
BEGIN
  IF EXISTS (SELECT 1 FROM unnest(p_charged, p_shares, p_fees) AS q (charged, share, fee)
      WHERE q.charged <> q.share + q.fee OR q.charged < 0) THEN
    RAISE EXCEPTION 'a charge is not its share and fee' USING ERRCODE = 'check_violation';
  END IF;
  PERFORM 1 FROM customers c
    WHERE c.customer_id IN (SELECT o.customer_id FROM reservations o WHERE o.reservation_id = ANY (p_ids))
    ORDER BY c.customer_id FOR UPDATE;
  v_now := clock_timestamp();
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  WITH q AS MATERIALIZED (
    SELECT u.*, o.customer_id, o.amount_wei AS reserved, o.private_job_id AS job,
      sum(u.charged) OVER w AS charged_so_far, sum(o.amount_wei) OVER w AS reserved_so_far
    FROM unnest(p_ids, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_held, p_debits, p_releases, p_payouts,
        p_fee_entries) WITH ORDINALITY
      AS u (id, charged, share, fee, hash, node, kind, held, debit, release, payout, fee_entry, ord)
    JOIN reservations o ON o.reservation_id = u.id AND o.settled_wei IS NULL
    WINDOW w AS (PARTITION BY o.customer_id ORDER BY u.ord)
  ), c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei - s.reserved, balance_wei = c.balance_wei - s.charged
      FROM (SELECT q.customer_id, sum(q.reserved) AS reserved, sum(q.charged) AS charged FROM q GROUP BY q.customer_id) s
      WHERE c.customer_id = s.customer_id
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei + s.reserved AS reserved
  ), o AS (
    UPDATE reservations o SET status = CASE WHEN q.charged > 0 THEN 'settled' ELSE 'released' END,
        settled_wei = q.charged, receipt_hash = q.hash, closed_at = v_now
      FROM q WHERE o.reservation_id = q.id
  ), p AS (
    INSERT INTO payouts (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held,
        earned_payee, payee, created_at, updated_at)
      SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, n.payout_address, n.payout_address,
        v_now, v_now
      FROM q LEFT JOIN nodes n ON n.node_id = q.node
      WHERE q.share > 0
  ), f AS (
    INSERT INTO protocol_fees (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
      SELECT q.fee_entry, q.hash, q.job, q.fee, v_now FROM q WHERE q.fee > 0
  )
  INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, receipt_hash, created_at)
    SELECT e.entry, q.customer_id, e.kind, e.amount, c.balance - q.charged_so_far,
      c.reserved - q.reserved_so_far + e.still_reserved, q.id, q.job, q.hash, v_now
    FROM q
    JOIN c ON c.customer_id = q.customer_id
    CROSS JOIN LATERAL (VALUES
      (1, q.debit, 'debit', q.charged, q.reserved - q.charged),
      (2, q.release, 'release', q.reserved - q.charged, 0)) AS e (turn, entry, kind, amount, still_reserved)
    WHERE e.amount > 0
    ORDER BY q.ord, e.turn;
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
