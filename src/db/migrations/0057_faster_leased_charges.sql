-- The constraint of `charge_groups`, as one call: the server reads the text of each constraint anew for every statement, which
-- was two fifths of what a group of eight costs. Every column has one element for each charge, every sum is that of its
-- column, no sum is negative, every entry has its number, and what a row is known by is in it.
CREATE OR REPLACE FUNCTION charge_group_adds_up(g charge_groups) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_whole boolean; v_charged numeric; v_shares numeric; v_fees numeric; v_last numeric;
BEGIN
  IF g.rows < 1 OR octet_length(g.hashes) <> 32 * g.rows OR NOT g.rows = ALL (ARRAY[cardinality(g.debit_seq),
      cardinality(g.release_seq), cardinality(g.reservation_ids), cardinality(g.debit_ids), cardinality(g.release_ids),
      cardinality(g.payout_ids), cardinality(g.fee_ids), cardinality(g.node_ids), cardinality(g.kinds), cardinality(g.payees),
      cardinality(g.charged_wei), cardinality(g.share_wei), cardinality(g.fee_wei), cardinality(g.released_wei),
      cardinality(g.balance_after_wei), cardinality(g.reserved_after_wei)]) THEN
    RETURN false;
  END IF;
  -- Of charges under a lease, the entries of their reserves and when they were made.
  IF g.reserve_seq IS NOT NULL AND NOT coalesce(g.rows = ALL (ARRAY[cardinality(g.reserve_seq), cardinality(g.reserve_ids),
      cardinality(g.reserved_at_ms)]) AND array_position(g.reserve_seq, NULL) IS NULL AND array_position(g.reserve_ids, NULL) IS NULL,
      false) THEN
    RETURN false;
  END IF;
  v_last := g.balance_after_wei[g.rows];
  -- Where no column is 0 and none is NULL, as usual, whole arrays say most of it: looking at each charge alone took 6 µs a charge, and this takes 2.
  IF coalesce(0 < ALL (g.charged_wei) AND 0 < ALL (g.share_wei) AND 0 < ALL (g.fee_wei) AND 0 < ALL (g.released_wei)
      AND g.reserved_after_wei[1] >= 0 AND g.reserved_after_wei[1] = ALL (g.reserved_after_wei)
      AND v_last <= ALL (g.balance_after_wei) AND v_last - g.reserved_after_wei[1] >= ALL (g.released_wei)
      AND array_position(g.release_seq, NULL) IS NULL AND array_position(g.release_ids, NULL) IS NULL
      AND array_position(g.payout_ids, NULL) IS NULL AND array_position(g.fee_ids, NULL) IS NULL
      AND array_position(g.debit_ids, NULL) IS NULL AND array_position(g.reservation_ids, NULL) IS NULL
      AND array_position(g.node_ids, NULL) IS NULL AND array_position(g.kinds, NULL) IS NULL, false) THEN
    SELECT bool_and(u.charged = u.share + u.fee), sum(u.charged), sum(u.share), sum(u.fee) INTO v_whole, v_charged, v_shares, v_fees
      FROM (SELECT unnest(g.charged_wei) AS charged, unnest(g.share_wei) AS share, unnest(g.fee_wei) AS fee) u;
  ELSE
    -- Taken apart once: an element of an array of numbers is looked for from its beginning each time.
    SELECT bool_and(coalesce(u.charged > 0 AND u.share >= 0 AND u.fee >= 0 AND u.released >= 0 AND u.charged = u.share + u.fee
          AND u.reserved >= 0 AND u.reserved + u.released <= u.balance
          AND (u.released > 0) = (u.release_seq IS NOT NULL) AND (u.released > 0) = (u.release_id IS NOT NULL)
          AND (u.share > 0) = (u.payout_id IS NOT NULL) AND (u.fee > 0) = (u.fee_id IS NOT NULL)
          AND u.debit_id IS NOT NULL AND u.reservation_id IS NOT NULL AND u.node_id IS NOT NULL AND u.kind IS NOT NULL, false)),
        sum(u.charged), sum(u.share), sum(u.fee) INTO v_whole, v_charged, v_shares, v_fees
      FROM unnest(g.charged_wei, g.share_wei, g.fee_wei, g.released_wei, g.reserved_after_wei, g.balance_after_wei, g.release_seq,
          g.release_ids, g.payout_ids, g.fee_ids, g.debit_ids, g.reservation_ids, g.node_ids, g.kinds)
        AS u (charged, share, fee, released, reserved, balance, release_seq, release_id, payout_id, fee_id, debit_id, reservation_id,
          node_id, kind);
  END IF;
  IF NOT v_whole THEN RETURN false; END IF;
  RETURN v_charged = g.charged_total AND v_shares = g.shares_total AND v_fees = g.fees_total AND g.group_id = g.debit_ids[1]
    AND g.first_seq = coalesce(g.reserve_seq[1], g.debit_seq[1]) AND g.last_seq = greatest(g.debit_seq[g.rows], g.release_seq[g.rows])
    -- Who looks for the entries of a range of seq knows by this where to end. A statement that draws numbers for longer is cancelled.
    AND g.last_seq - g.first_seq < 1000000;
END $$;
--> statement-breakpoint
-- Writes the charges of several leases as a row for each: the arrays of `leased_charges_write`, each as long as all of them, with p_balances before
-- the charges of each lease and p_reserved of its customer. One statement, since to begin one for each lease would cost as much as its charges.
CREATE OR REPLACE FUNCTION charge_groups_insert(p_now timestamptz, p_customers text[], p_counts int[], p_balances numeric[], p_reserved numeric[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ids text[], p_reserved_at bigint[], p_charged numeric[],
  p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[], p_payees text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_reserve_seq bigint[],
  p_debit_seq bigint[], p_release_seq bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  -- The charges from f to t are those of one lease.
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    SELECT greatest(p_debit_seq[g.t], p_release_seq[g.t]), p_reserve_seq[g.f], p_debits[g.f], g.customer, g.n, p_now,
      p_reserve_seq[g.f:g.t], p_debit_seq[g.f:g.t], p_release_seq[g.f:g.t], p_ids[g.f:g.t], p_reserves[g.f:g.t], p_debits[g.f:g.t],
      p_releases[g.f:g.t], p_payouts[g.f:g.t], p_fee_entries[g.f:g.t], p_nodes[g.f:g.t], p_kinds[g.f:g.t], p_payees[g.f:g.t],
      p_charged[g.f:g.t], p_shares[g.f:g.t], p_fees[g.f:g.t], p_released[g.f:g.t],
      -- In the order of the charges, which a window without one of its own keeps.
      ARRAY(SELECT g.balance - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged[g.f:g.t]) AS u (charged)),
      array_fill(g.reserved, ARRAY[g.n]), p_reserved_at[g.f:g.t], substring(p_hashes FROM 32 * g.f - 31 FOR 32 * g.n),
      g.charged, g.share, g.fee
    FROM (SELECT q.*, q.t - q.n + 1 AS f FROM (SELECT q.*, (sum(q.n) OVER (ROWS UNBOUNDED PRECEDING))::int AS t
      FROM unnest(p_customers, p_counts, p_balances, p_reserved, p_charged_sums, p_share_sums, p_fee_sums)
        AS q (customer, n, balance, reserved, charged, share, fee)) q) g;
END $$;
--> statement-breakpoint
-- What stands against charging under leases, as `leased_charges_write` answers it; no row: nothing does. Locks the customers in the order of
-- their ids, and then their leases, and ends the leases that have less than their charges.
CREATE OR REPLACE FUNCTION leased_charges_refused(p_call bigint, p_sent text[], p_leases text[], p_customers text[], p_counts int[],
  p_charged_sums numeric[], p_debits text[]) RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_there text[]; v_short text[]; v_late text[]; v_done bigint[];
BEGIN
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  SELECT array_agg(l.lease_id) FILTER (WHERE l.calls < p_call AND l.left_wei >= q.charged),
      array_agg(l.lease_id) FILTER (WHERE l.calls < p_call AND l.left_wei < q.charged),
      array_agg(l.lease_id) FILTER (WHERE l.calls >= p_call)
    INTO v_there, v_short, v_late
    FROM (SELECT l.lease_id, l.customer_id, l.left_wei, l.calls FROM money_leases l WHERE l.lease_id = ANY (p_leases)
      ORDER BY l.customer_id, l.lease_id FOR UPDATE) l
    JOIN unnest(p_leases, p_customers, p_charged_sums) AS q (lease, customer, charged) ON q.lease = l.lease_id AND q.customer = l.customer_id;
  IF cardinality(p_sent) > 0 THEN
    SELECT array_agg(q.ord) INTO v_done FROM charge_groups g CROSS JOIN LATERAL unnest(g.debit_ids) AS d (id)
      JOIN unnest(p_debits) WITH ORDINALITY AS q (id, ord) ON q.id = d.id WHERE g.group_id = ANY (p_sent);
  END IF;
  IF v_short IS NOT NULL THEN
    WITH l AS (DELETE FROM money_leases l WHERE l.lease_id = ANY (v_short) RETURNING l.customer_id, l.left_wei)
    UPDATE customers c SET leased_wei = c.leased_wei - s.wei
      FROM (SELECT l.customer_id, sum(l.left_wei) AS wei FROM l GROUP BY l.customer_id) s WHERE c.customer_id = s.customer_id;
  END IF;
  IF v_done IS NOT NULL OR NOT coalesce(p_leases <@ v_there, false) THEN
    RETURN QUERY SELECT (row_number() OVER (ORDER BY l.ord, n))::int, CASE WHEN row_number() OVER (ORDER BY l.ord, n) = ANY (v_done)
        THEN 'settled' WHEN l.lease = ANY (v_there) OR l.lease = ANY (v_late) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases, p_counts) WITH ORDINALITY AS l (lease, count, ord), generate_series(1, l.count) AS n;
  END IF;
END $$;
--> statement-breakpoint
-- Charges what was reserved in memory under leases (docs/decisions/0051). The charges of a lease are one row of `charge_groups`, each with
-- the entry of its reserve beside its debit and its release, so that a customer's entries are those that it has without a lease. Their
-- receipts are one row of `receipt_groups` (docs/decisions/0056): p_grouped, NULL: all of them. What has more than such a group holds is p_receipts.
--
-- Charges stand in the order of their leases, and those in the order of their customers' ids: of each lease how many, and how much in all.
-- The constraint of `charge_groups` adds up again what the arrays say.
--
-- Either all of them are charged, and nothing is answered; or none is, and each is answered by its place from 1: `settled`:
-- it was charged before, by a call whose answer was lost; `unknown`: its lease has ended, and with it the reservation; `again`: nothing
-- stands against it, and it is to be sent without the others. A lease that has less than its charges is older than its gateway believes,
-- after a fail-over to a standby that was behind: it ends here.
--
-- p_sent: the groups in which any of the charges was sent before. p_call grows with each call of a process, and a lease takes none that is
-- not larger than its last: of a call that was given up its sender knows nothing, so it must not come after what was sent in its place.
--
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. The locks of the views come
-- before, as in `ledger_charge`.
--
-- A statement costs 40 to 80 µs to begin, as much as two charges (docs/decisions/0058). So there is one for all leases where there can be, and
-- charges of one lease that were never sent look at nothing before they change it: where it does not have what they need, the change is
-- taken back. Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
-- p_nodes: one for each charge, or one for all.
CREATE OR REPLACE FUNCTION leased_charges_write(p_call bigint, p_sent text[], p_leases text[], p_customers text[], p_counts int[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[],
  p_charged numeric[], p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json, p_grouped bytea,
  p_shared text[], c text[], p_mac text)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_rows int; v_balance numeric; v_reserved numeric; v_balances numeric[]; v_reserves numeric[];
  v_nodes text[]; v_payees text[]; v_seq bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  LOCK TABLE ledger_entries, receipts IN ROW EXCLUSIVE MODE;
  IF cardinality(p_leases) = 1 AND cardinality(p_sent) = 0 THEN
    UPDATE customers c SET balance_wei = c.balance_wei - p_charged_sums[1], leased_wei = c.leased_wei - p_charged_sums[1]
      WHERE c.customer_id = p_customers[1] AND c.leased_wei >= p_charged_sums[1]
      RETURNING c.balance_wei + p_charged_sums[1], c.reserved_wei INTO v_balance, v_reserved;
    IF FOUND THEN
      UPDATE money_leases l SET left_wei = l.left_wei - p_charged_sums[1], calls = p_call,
          ends_at = greatest(l.ends_at, clock_timestamp() + p_ttl_ms * interval '1 ms')
        WHERE l.lease_id = p_leases[1] AND l.customer_id = p_customers[1] AND l.calls < p_call AND l.left_wei >= p_charged_sums[1];
      IF FOUND THEN
        v_balances := ARRAY[v_balance];
        v_reserves := ARRAY[v_reserved];
      ELSE
        UPDATE customers c SET balance_wei = c.balance_wei + p_charged_sums[1], leased_wei = c.leased_wei + p_charged_sums[1]
          WHERE c.customer_id = p_customers[1];
      END IF;
    END IF;
  END IF;
  IF v_balances IS NULL THEN
    RETURN QUERY SELECT r.place, r.outcome
      FROM leased_charges_refused(p_call, p_sent, p_leases, p_customers, p_counts, p_charged_sums, p_debits) r;
    IF FOUND THEN RETURN; END IF;
    -- A customer may have several leases: of each the balance before its charges.
    WITH c AS (
      UPDATE customers c SET balance_wei = c.balance_wei - q.wei, leased_wei = c.leased_wei - q.wei
        FROM (SELECT q.customer, sum(q.charged) AS wei FROM unnest(p_customers, p_charged_sums) AS q (customer, charged) GROUP BY 1) q
        WHERE c.customer_id = q.customer RETURNING c.customer_id, c.balance_wei + q.wei AS balance, c.reserved_wei AS reserved
    )
    SELECT array_agg(c.balance - q.before ORDER BY q.ord), array_agg(c.reserved ORDER BY q.ord) INTO v_balances, v_reserves
      FROM (SELECT q.customer, q.ord, sum(q.charged) OVER (PARTITION BY q.customer ORDER BY q.ord) - q.charged AS before
        FROM unnest(p_customers, p_charged_sums) WITH ORDINALITY AS q (customer, charged, ord)) q
      JOIN c ON c.customer_id = q.customer;
    UPDATE money_leases l SET left_wei = l.left_wei - q.charged, calls = p_call,
        ends_at = greatest(l.ends_at, clock_timestamp() + p_ttl_ms * interval '1 ms')
      FROM unnest(p_leases, p_charged_sums) AS q (lease, charged) WHERE l.lease_id = q.lease;
  END IF;
  IF (SELECT count(*) <> cardinality(p_debits) FROM (SELECT FROM unnest(p_debits) AS q GROUP BY q) d) THEN
    RAISE EXCEPTION 'a charge is there twice' USING ERRCODE = 'check_violation';
  END IF;
  v_now := clock_timestamp();
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  p_grouped := coalesce(p_grouped, p_hashes);
  v_rows := octet_length(p_grouped) / 32;
  IF v_rows > 0 THEN
    v_seq := ARRAY(SELECT nextval('receipts_seq_seq') FROM generate_series(1, v_rows));
    INSERT INTO receipt_groups (last_seq, first_seq, rows, created_at, first_hash, seq, hashes, shared, customer_id, signature_ed25519,
        issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens,
        started_ms, completed_ms, issued_after_ms, price, mac, billed)
      VALUES (v_seq[v_rows], v_seq[1], v_rows, v_now, substring(p_grouped FOR 32), v_seq, p_grouped, p_shared, list_of(c[1]),
        list_of(c[2]), list_of(c[3]), list_of(c[4]), list_of(c[5]), list_of(c[6]), list_of(c[7]), list_of(c[8]), list_of(c[9]),
        list_of(c[10]), list_of(c[11]), c[12]::integer[], c[13]::integer[], c[14]::bigint[], c[15]::bigint[], c[16]::integer[],
        list_of(c[17]), p_mac, true);
  END IF;
  -- Usually all are of one node.
  IF cardinality(p_nodes) = 1 THEN
    v_nodes := array_fill(p_nodes[1], ARRAY[cardinality(p_debits)]);
    v_payees := array_fill((SELECT n.payout_address FROM nodes n WHERE n.node_id = p_nodes[1]), ARRAY[cardinality(p_debits)]);
  ELSE
    v_nodes := p_nodes;
    v_payees := ARRAY(SELECT n.payout_address FROM unnest(p_nodes) WITH ORDINALITY AS q (node, ord)
      LEFT JOIN nodes n ON n.node_id = q.node ORDER BY q.ord);
  END IF;
  SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release) INTO v_reserve_seq, v_debit_seq, v_release_seq FROM (
    SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
      CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release
    FROM unnest(p_released) AS r (wei) OFFSET 0) s;
  IF cardinality(p_leases) > 1 THEN
    PERFORM charge_groups_insert(v_now, p_customers, p_counts, v_balances, v_reserves, p_charged_sums, p_share_sums, p_fee_sums, p_ids,
      p_reserved_at, p_charged, p_shares, p_fees, p_released, p_hashes, v_nodes, p_kinds, v_payees, p_reserves, p_debits, p_releases,
      p_payouts, p_fee_entries, v_reserve_seq, v_debit_seq, v_release_seq);
    RETURN;
  END IF;
  -- Of one lease the arrays are whole: a slice of each took 2 µs a charge.
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    VALUES (greatest(v_debit_seq[p_counts[1]], v_release_seq[p_counts[1]]), v_reserve_seq[1], p_debits[1], p_customers[1], p_counts[1], v_now,
      v_reserve_seq, v_debit_seq, v_release_seq, p_ids, p_reserves, p_debits,
      p_releases, p_payouts, p_fee_entries, v_nodes, p_kinds, v_payees,
      p_charged, p_shares, p_fees, p_released,
      -- In the order of the charges, which a window without one of its own keeps.
      ARRAY(SELECT v_balances[1] - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged) AS u (charged)),
      array_fill(v_reserves[1], ARRAY[p_counts[1]]), p_reserved_at, p_hashes,
      p_charged_sums[1], p_share_sums[1], p_fee_sums[1]);
END $$;
