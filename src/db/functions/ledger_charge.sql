-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. Receipt, share and fee are written
-- with the debit, so that debits = payouts + fees at every commit. Answers with what is not simply settled, by its place
-- from 1: `closed`: the reservation was closed before with another outcome (released as stale, for instance), nothing is
-- debited; `unknown`.
--
-- From p_group_from charges of a customer on they are one row of `charge_groups`, with all of their entries, shares and fees
-- (docs/decisions/0035); NULL: never. What is held or of a private job may change, and is always rows; so is a release.
--
-- Whoever closes a reservation has its row, and whoever comes second waits and finds it closed: so all that belongs to one
-- request alone is written first, and the customer, for whom others wait, is locked last, in the order of their ids where
-- there are several. Numbers of entries are drawn behind that lock: their order is the order of the balances.
--
-- `settled_wei IS NULL` says the same of a reservation as `status = 'open'` (a constraint of the table), and is no reason to
-- look through the index of the open ones: until it is vacuumed that holds every reservation there ever was, and each
-- group read all of it (measured: 5 of 8 ms a group after 50,000 requests, and growing).
--
-- Planned once and not for each call: planning was a fifth of a group of one (908 and 691 µs), and nothing of a large one.
--
-- p_owners: for whom the nodes worked; NULL: a gateway of the version before does not say it.
--
-- The lock of the view comes before the numbers are drawn: by it the log of a gateway of the version before knows who may
-- still commit a smaller one (`readFence`).
CREATE OR REPLACE FUNCTION ledger_charge(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json, p_group_from int, p_owners text[] DEFAULT NULL)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_count int := cardinality(p_ids);
  v_whole boolean; v_places int[]; v_customers text[]; v_reserved numeric[]; v_jobs text[];
  v_grouped boolean[] := array_fill(false, ARRAY[v_count]);
  v_paying text[]; v_balances numeric[]; v_reserves numeric[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
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
  IF v_count >= p_group_from THEN
    SELECT array_agg(g.grouped ORDER BY g.ord) INTO v_grouped FROM (
      SELECT q.ord, q.fits AND count(*) FILTER (WHERE q.fits) OVER (PARTITION BY q.customer) >= p_group_from AS grouped
      FROM (
        SELECT u.ord, u.customer, u.customer IS NOT NULL AND u.job IS NULL AND u.charged > 0 AND NOT u.held AS fits
        FROM unnest(v_customers, v_jobs, p_charged, p_held) WITH ORDINALITY AS u (customer, job, charged, held, ord)
      ) q) g;
  END IF;
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  IF NOT true = ALL (v_grouped) THEN
    INSERT INTO payout_rows (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held, earned_held,
        earned_payee, payee, created_at, updated_at)
      SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, q.held, p.payee, p.payee, v_now, v_now
      FROM unnest(v_customers, v_jobs, p_charged, p_shares, p_hashes, p_nodes, p_owners, p_kinds, p_held, p_payouts, v_grouped)
        AS q (customer, job, charged, share, hash, node, owner, kind, held, payout, grouped)
      LEFT JOIN nodes n ON n.node_id = q.node
      CROSS JOIN LATERAL (SELECT CASE WHEN n.node_id IS NULL THEN payee_of_deleted(q.owner, q.node)
        ELSE payee_of(q.owner, n.customer_id, n.payout_address, n.former_payees) END AS payee) p
      WHERE q.share > 0 AND q.customer IS NOT NULL AND NOT q.grouped;
    INSERT INTO fee_rows (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
      SELECT q.entry, q.hash, q.job, q.fee, v_now
      FROM unnest(v_customers, v_jobs, p_fees, p_hashes, p_fee_entries, v_grouped)
        AS q (customer, job, fee, hash, entry, grouped)
      WHERE q.fee > 0 AND q.customer IS NOT NULL AND NOT q.grouped;
  END IF;
  IF NOT coalesce(v_customers[1] = ALL (v_customers), false) THEN
    PERFORM 1 FROM customers c WHERE c.customer_id = ANY (v_customers) ORDER BY c.customer_id FOR UPDATE;
  END IF;
  WITH c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei - s.reserved, balance_wei = c.balance_wei - s.charged
      FROM (SELECT q.customer, sum(q.reserved) AS reserved, sum(q.charged) AS charged
        FROM unnest(v_customers, v_reserved, p_charged) AS q (customer, reserved, charged)
        WHERE q.customer IS NOT NULL GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei + s.reserved AS reserved
  )
  SELECT array_agg(c.customer_id), array_agg(c.balance), array_agg(c.reserved) INTO v_paying, v_balances, v_reserves FROM c;
  v_now := clock_timestamp();
  -- What is written as rows comes first, and behind it each customer's group.
  IF NOT true = ALL (v_grouped) THEN
    INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
        reservation_id, private_job_id, receipt_hash, created_at)
      SELECT e.entry, q.customer, e.kind, e.amount, c.balance - q.charged_so_far,
        c.reserved - q.reserved_so_far + e.still_reserved, q.id, q.job, q.hash, v_now
      FROM (
        SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
        FROM unnest(p_ids, v_customers, v_reserved, v_jobs, p_charged, p_hashes, p_debits, p_releases, v_grouped)
          WITH ORDINALITY AS u (id, customer, reserved, job, charged, hash, debit, release, grouped, ord)
        WHERE u.customer IS NOT NULL AND NOT u.grouped
        WINDOW w AS (PARTITION BY u.customer ORDER BY u.ord)
      ) q
      JOIN unnest(v_paying, v_balances, v_reserves) AS c (customer, balance, reserved) ON c.customer = q.customer
      CROSS JOIN LATERAL (VALUES
        (1, q.debit, 'debit', q.charged, q.reserved - q.charged),
        (2, q.release, 'release', q.reserved - q.charged, 0)) AS e (turn, entry, kind, amount, still_reserved)
      WHERE e.amount > 0
      ORDER BY q.ord, e.turn;
  END IF;
  IF true = ANY (v_grouped) THEN
    INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, debit_seq, release_seq,
        reservation_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
        released_wei, balance_after_wei, reserved_after_wei, hashes, charged_total, shares_total, fees_total)
      SELECT max(greatest(s.debit_seq, s.release_seq)), min(s.debit_seq), (array_agg(s.debit ORDER BY s.ord))[1], s.customer,
        count(*), v_now, array_agg(s.debit_seq ORDER BY s.ord), array_agg(s.release_seq ORDER BY s.ord),
        array_agg(s.id ORDER BY s.ord), array_agg(s.debit ORDER BY s.ord),
        array_agg(CASE WHEN s.released > 0 THEN s.release END ORDER BY s.ord),
        array_agg(CASE WHEN s.share > 0 THEN s.payout END ORDER BY s.ord),
        array_agg(CASE WHEN s.fee > 0 THEN s.fee_entry END ORDER BY s.ord), array_agg(s.node ORDER BY s.ord),
        array_agg(s.kind ORDER BY s.ord),
        array_agg(CASE WHEN n.node_id IS NULL THEN payee_of_deleted(s.owner, s.node)
          ELSE payee_of(s.owner, n.customer_id, n.payout_address, n.former_payees) END ORDER BY s.ord), array_agg(s.charged ORDER BY s.ord),
        array_agg(s.share ORDER BY s.ord), array_agg(s.fee ORDER BY s.ord), array_agg(s.released ORDER BY s.ord),
        array_agg(s.balance ORDER BY s.ord), array_agg(s.reserved_left ORDER BY s.ord),
        string_agg(decode(substr(s.hash, 3), 'hex'), ''::bytea ORDER BY s.ord), sum(s.charged), sum(s.share), sum(s.fee)
      FROM (
        SELECT o.*, nextval('ledger_entries_seq_seq') AS debit_seq,
          CASE WHEN o.released > 0 THEN nextval('ledger_entries_seq_seq') END AS release_seq
        FROM (
          SELECT q.*, q.reserved - q.charged AS released, c.balance - q.charged_so_far AS balance,
            c.reserved - q.reserved_so_far AS reserved_left
          FROM (
            SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
            FROM unnest(p_ids, v_customers, v_reserved, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_owners, p_kinds,
                p_debits, p_releases, p_payouts, p_fee_entries, v_grouped)
              WITH ORDINALITY AS u (id, customer, reserved, charged, share, fee, hash, node, owner, kind, debit, release, payout,
                fee_entry, grouped, ord)
            WHERE u.customer IS NOT NULL
            WINDOW w AS (PARTITION BY u.customer ORDER BY u.grouped, u.ord)
          ) q
          JOIN unnest(v_paying, v_balances, v_reserves) AS c (customer, balance, reserved) ON c.customer = q.customer
          WHERE q.grouped
          ORDER BY q.customer, q.ord OFFSET 0
        ) o
      ) s
      LEFT JOIN nodes n ON n.node_id = s.node
      GROUP BY s.customer;
  END IF;
  IF cardinality(v_places) = v_count THEN RETURN; END IF;
  RETURN QUERY
    SELECT q.ord::int, CASE WHEN o.reservation_id IS NULL THEN 'unknown' ELSE 'closed' END
    FROM unnest(p_ids, p_charged, p_hashes) WITH ORDINALITY AS q (id, charged, hash, ord)
    LEFT JOIN reservations o ON o.reservation_id = q.id
    WHERE o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash;
  -- Nobody pays for work whose reservation had ended: its receipt is not a billed one.
  IF FOUND THEN
    UPDATE receipt_rows x SET billed = false, status = 'accepted'
      FROM unnest(p_ids, p_charged, p_hashes) AS q (id, charged, hash)
      LEFT JOIN reservations o ON o.reservation_id = q.id
      WHERE x.receipt_hash = q.hash AND x.billed
        AND (o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash);
  END IF;
END $$;
