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
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. Before them come the locks by
-- which the log knows who may still commit a smaller number: of the tables alone once receipts stand in groups, an hour after an upgrade
-- (docs/decisions/0063). Gateways of versions before look at the views, whose locks cost as much as a small statement.
--
-- A statement costs 40 to 80 µs to begin, as much as two charges (docs/decisions/0058). So there is one for all leases where there can be, and
-- charges of one lease that were never sent look at nothing before they change it: where it does not have what they need, the change is
-- taken back. Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
-- p_nodes: one for each charge, or one for all; p_owners: for whom they worked, as many. Gateways of the version before do not say it.
CREATE OR REPLACE FUNCTION leased_charges_write(p_call bigint, p_sent text[], p_leases text[], p_customers text[], p_counts int[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[],
  p_charged numeric[], p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json, p_grouped bytea,
  p_shared text[], c text[], p_mac text, p_owners text[] DEFAULT NULL)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_rows int; v_ids int; v_balance numeric; v_reserved numeric; v_balances numeric[]; v_reserves numeric[];
  v_payees text[]; v_seq bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  IF p_mac IS NULL OR p_receipts IS NOT NULL THEN
    LOCK TABLE ledger_entries, receipts IN ROW EXCLUSIVE MODE;
  ELSE
    LOCK TABLE charge_groups, receipt_groups IN ROW EXCLUSIVE MODE;
  END IF;
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
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  p_grouped := coalesce(p_grouped, p_hashes);
  v_rows := octet_length(p_grouped) / 32;
  v_now := clock_timestamp();
  -- One statement draws all numbers, in the order of the charges, and looks for a charge that is there twice. No aggregate of it may sort.
  SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release), array_agg(s.receipt) FILTER (WHERE s.receipt IS NOT NULL),
      (SELECT count(*) FROM (SELECT FROM unnest(p_debits) AS q GROUP BY q) d)
    INTO v_reserve_seq, v_debit_seq, v_release_seq, v_seq, v_ids FROM (
      SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
        CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release,
        CASE WHEN r.ord <= v_rows THEN nextval('receipts_seq_seq') END AS receipt
      FROM unnest(p_released) WITH ORDINALITY AS r (wei, ord) OFFSET 0) s;
  IF v_ids <> cardinality(p_debits) THEN
    RAISE EXCEPTION 'a charge is there twice' USING ERRCODE = 'check_violation';
  END IF;
  IF v_rows > 0 THEN
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
    SELECT array_fill(payee_of(p_owners[1], n.customer_id, n.payout_address, n.former_payees), ARRAY[v_ids]) INTO v_payees
      FROM nodes n WHERE n.node_id = p_nodes[1];
    IF NOT FOUND THEN v_payees := array_fill(payee_of_deleted(p_owners[1], p_nodes[1]), ARRAY[v_ids]); END IF;
    p_nodes := array_fill(p_nodes[1], ARRAY[v_ids]);
  ELSE
    v_payees := ARRAY(SELECT CASE WHEN n.node_id IS NULL THEN payee_of_deleted(q.owner, q.node)
        ELSE payee_of(q.owner, n.customer_id, n.payout_address, n.former_payees) END
      FROM unnest(p_nodes, p_owners) WITH ORDINALITY AS q (node, owner, ord) LEFT JOIN nodes n ON n.node_id = q.node ORDER BY q.ord);
  END IF;
  IF cardinality(p_leases) > 1 THEN
    PERFORM charge_groups_insert(v_now, p_customers, p_counts, v_balances, v_reserves, p_charged_sums, p_share_sums, p_fee_sums, p_ids,
      p_reserved_at, p_charged, p_shares, p_fees, p_released, p_hashes, p_nodes, p_kinds, v_payees, p_reserves, p_debits, p_releases,
      p_payouts, p_fee_entries, v_reserve_seq, v_debit_seq, v_release_seq);
    RETURN;
  END IF;
  -- Of one lease the arrays are whole: a slice of each took 2 µs a charge.
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    VALUES (greatest(v_debit_seq[p_counts[1]], v_release_seq[p_counts[1]]), v_reserve_seq[1], p_debits[1], p_customers[1], p_counts[1], v_now,
      v_reserve_seq, v_debit_seq, v_release_seq, p_ids, p_reserves, p_debits,
      p_releases, p_payouts, p_fee_entries, p_nodes, p_kinds, v_payees,
      p_charged, p_shares, p_fees, p_released,
      -- In the order of the charges, which a window without one of its own keeps.
      ARRAY(SELECT v_balances[1] - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged) AS u (charged)),
      array_fill(v_reserves[1], ARRAY[p_counts[1]]), p_reserved_at, p_hashes,
      p_charged_sums[1], p_share_sums[1], p_fee_sums[1]);
END $$;
