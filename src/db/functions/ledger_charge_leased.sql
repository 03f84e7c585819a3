-- Of gateways of the version before, which write the receipts of charges as rows; others call `leased_charges_write`.
--
-- Charges what was reserved in memory under leases (docs/decisions/0051). The charges of a lease are one row of `charge_groups`, each with
-- the entry of its reserve beside its debit and its release, so that a customer's entries are those that it has without a lease.
--
-- Charges stand in the order of their leases, and those in the order of their customers' ids: of each lease how many, and how much in all.
-- The constraint of `charge_groups` adds up again what the arrays say.
--
-- Either all of them are charged, and nothing is answered; or none is, and each is answered by its place from 1: `settled`:
-- it was charged before, by a call whose answer was lost; `unknown`: its lease has ended, and with it the reservation; `again`: nothing
-- stands against it, and it is to be sent without the others. A lease that has less than its charges is older than its gateway believes,
-- after a fail-over to a standby that was behind: it ends here.
--
-- Where a billed receipt is, its charge is: both are of one commit, and whoever has the customer's row sees both.
--
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. The lock of the view comes
-- before, as in `ledger_charge`.
--
-- Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
CREATE OR REPLACE FUNCTION ledger_charge_leased(p_leases text[], p_customers text[], p_counts int[], p_charged_sums numeric[],
  p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[], p_charged numeric[], p_shares numeric[],
  p_fees numeric[], p_released numeric[], p_hashes text[], p_nodes text[], p_kinds text[], p_reserves text[], p_debits text[],
  p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_hashes bytea; v_from int; v_to int := 0; v_balance numeric; v_reserved numeric;
  v_there text[]; v_short text[]; v_done bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  SELECT array_agg(l.lease_id) FILTER (WHERE l.left_wei >= q.charged), array_agg(l.lease_id) FILTER (WHERE l.left_wei < q.charged)
    INTO v_there, v_short
    FROM (SELECT l.lease_id, l.customer_id, l.left_wei FROM money_leases l WHERE l.lease_id = ANY (p_leases)
      ORDER BY l.customer_id, l.lease_id FOR UPDATE) l
    JOIN unnest(p_leases, p_customers, p_charged_sums) AS q (lease, customer, charged) ON q.lease = l.lease_id AND q.customer = l.customer_id;
  -- By their keys, whatever size the table had when the plan was made: hence the OFFSET.
  SELECT array_agg(q.ord) INTO v_done FROM unnest(p_hashes) WITH ORDINALITY AS q (hash, ord)
    CROSS JOIN LATERAL (SELECT r.billed FROM receipt_rows r WHERE r.receipt_hash = q.hash OFFSET 0) r WHERE r.billed;
  -- What was charged before is in these sums, and not in what is left: the others are judged when they are sent without it.
  IF v_done IS NOT NULL THEN
    v_there := v_there || v_short;
    v_short := NULL;
  END IF;
  IF v_short IS NOT NULL THEN
    WITH l AS (DELETE FROM money_leases l WHERE l.lease_id = ANY (v_short) RETURNING l.customer_id, l.left_wei)
    UPDATE customers c SET leased_wei = c.leased_wei - s.wei
      FROM (SELECT l.customer_id, sum(l.left_wei) AS wei FROM l GROUP BY l.customer_id) s WHERE c.customer_id = s.customer_id;
  END IF;
  IF v_done IS NOT NULL OR NOT coalesce(p_leases <@ v_there, false) THEN
    RETURN QUERY SELECT (row_number() OVER (ORDER BY l.ord, n))::int, CASE WHEN row_number() OVER (ORDER BY l.ord, n) = ANY (v_done)
        THEN 'settled' WHEN l.lease = ANY (v_there) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases, p_counts) WITH ORDINALITY AS l (lease, count, ord), generate_series(1, l.count) AS n;
    RETURN;
  END IF;
  IF (SELECT count(DISTINCT q) <> cardinality(p_hashes) FROM unnest(p_hashes) AS q) THEN
    RAISE EXCEPTION 'a receipt is there twice' USING ERRCODE = 'check_violation';
  END IF;
  PERFORM receipts_insert(p_receipts);
  v_now := clock_timestamp();
  FOR i IN 1 .. cardinality(p_leases) LOOP
    v_from := v_to + 1;
    v_to := v_to + p_counts[i];
    UPDATE money_leases l SET left_wei = l.left_wei - p_charged_sums[i], ends_at = greatest(l.ends_at, v_now + p_ttl_ms * interval '1 ms')
      WHERE l.lease_id = p_leases[i];
    UPDATE customers c SET balance_wei = c.balance_wei - p_charged_sums[i], leased_wei = c.leased_wei - p_charged_sums[i]
      WHERE c.customer_id = p_customers[i] RETURNING c.balance_wei + p_charged_sums[i], c.reserved_wei INTO v_balance, v_reserved;
    SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release) INTO v_reserve_seq, v_debit_seq, v_release_seq FROM (
      SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
        CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release
      FROM unnest(p_released[v_from:v_to]) AS r (wei) OFFSET 0) s;
    v_hashes := decode(replace(array_to_string(p_hashes[v_from:v_to], ''), '0x', ''), 'hex');
    INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
        reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
        released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
      VALUES (greatest(v_debit_seq[p_counts[i]], v_release_seq[p_counts[i]]), v_reserve_seq[1], p_debits[v_from], p_customers[i], p_counts[i],
        v_now, v_reserve_seq, v_debit_seq, v_release_seq, p_ids[v_from:v_to], p_reserves[v_from:v_to], p_debits[v_from:v_to],
        p_releases[v_from:v_to], p_payouts[v_from:v_to], p_fee_entries[v_from:v_to], p_nodes[v_from:v_to], p_kinds[v_from:v_to],
        (SELECT array_agg(CASE WHEN n.node_id IS NULL THEN payee_of_deleted(NULL, q.node) ELSE n.payout_address END ORDER BY q.ord) FROM unnest(p_nodes[v_from:v_to]) WITH ORDINALITY AS q (node, ord)
          LEFT JOIN nodes n ON n.node_id = q.node),
        p_charged[v_from:v_to], p_shares[v_from:v_to], p_fees[v_from:v_to], p_released[v_from:v_to],
        (SELECT array_agg(v_balance - q.so_far ORDER BY q.ord) FROM (
          SELECT u.ord, sum(u.charged) OVER (ORDER BY u.ord ROWS UNBOUNDED PRECEDING) AS so_far
          FROM unnest(p_charged[v_from:v_to]) WITH ORDINALITY AS u (charged, ord)) q),
        array_fill(v_reserved, ARRAY[p_counts[i]]), p_reserved_at[v_from:v_to], v_hashes, p_charged_sums[i], p_share_sums[i], p_fee_sums[i]);
  END LOOP;
END $$;
