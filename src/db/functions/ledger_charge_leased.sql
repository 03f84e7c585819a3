-- Charges what was reserved in memory under leases (docs/decisions/0051). All of a customer's charges are one row of `charge_groups`, each
-- with the entry of its reserve beside its debit and its release, so that its entries are those that it has without a lease.
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
CREATE OR REPLACE FUNCTION ledger_charge_leased(p_leases text[], p_ttl_ms bigint, p_ids text[], p_customers text[], p_reserved numeric[],
  p_reserved_at numeric[], p_charged numeric[], p_shares numeric[], p_fees numeric[], p_hashes text[], p_nodes text[], p_kinds text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_count int := cardinality(p_ids); v_there text[]; v_short text[]; v_done bigint[];
  v_paying text[]; v_balances numeric[]; v_reserves numeric[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  SELECT array_agg(l.lease_id) FILTER (WHERE l.left_wei >= s.charged), array_agg(l.lease_id) FILTER (WHERE l.left_wei < s.charged)
    INTO v_there, v_short
    FROM (SELECT l.lease_id, l.customer_id, l.left_wei FROM money_leases l WHERE l.lease_id = ANY (p_leases)
      ORDER BY l.customer_id, l.lease_id FOR UPDATE) l
    JOIN (SELECT q.lease, q.customer, sum(q.charged) AS charged FROM unnest(p_leases, p_customers, p_charged) AS q (lease, customer, charged)
      GROUP BY q.lease, q.customer) s ON s.lease = l.lease_id AND s.customer = l.customer_id;
  -- By their keys, whatever size the table had when the plan was made: hence the OFFSET.
  SELECT array_agg(q.ord) INTO v_done FROM unnest(p_hashes) WITH ORDINALITY AS q (hash, ord)
    CROSS JOIN LATERAL (SELECT r.billed FROM receipt_rows r WHERE r.receipt_hash = q.hash OFFSET 0) r WHERE r.billed;
  IF v_short IS NOT NULL THEN
    WITH l AS (DELETE FROM money_leases l WHERE l.lease_id = ANY (v_short) RETURNING l.customer_id, l.left_wei)
    UPDATE customers c SET leased_wei = c.leased_wei - s.wei
      FROM (SELECT l.customer_id, sum(l.left_wei) AS wei FROM l GROUP BY l.customer_id) s WHERE c.customer_id = s.customer_id;
  END IF;
  IF v_done IS NOT NULL OR NOT coalesce(p_leases <@ v_there, false) THEN
    RETURN QUERY SELECT q.ord::int, CASE WHEN q.ord = ANY (v_done) THEN 'settled' WHEN q.lease = ANY (v_there) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases) WITH ORDINALITY AS q (lease, ord);
    RETURN;
  END IF;
  IF (SELECT count(DISTINCT q.hash) <> v_count OR bool_or(q.charged > q.reserved) FROM unnest(p_hashes, p_charged, p_reserved)
      AS q (hash, charged, reserved)) THEN
    RAISE EXCEPTION 'a charge is more than its reserve, or there twice' USING ERRCODE = 'check_violation';
  END IF;
  PERFORM receipts_insert(p_receipts);
  v_now := clock_timestamp();
  -- No lease has less than nothing: a constraint.
  UPDATE money_leases l SET left_wei = l.left_wei - s.charged, ends_at = greatest(l.ends_at, v_now + p_ttl_ms * interval '1 ms')
    FROM (SELECT q.lease, q.customer, sum(q.charged) AS charged FROM unnest(p_leases, p_customers, p_charged) AS q (lease, customer, charged)
      GROUP BY q.lease, q.customer) s
    WHERE l.lease_id = s.lease AND l.customer_id = s.customer;
  WITH c AS (
    UPDATE customers c SET balance_wei = c.balance_wei - s.charged, leased_wei = c.leased_wei - s.charged
      FROM (SELECT q.customer, sum(q.charged) AS charged FROM unnest(p_customers, p_charged) AS q (customer, charged) GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei AS reserved
  )
  SELECT array_agg(c.customer_id), array_agg(c.balance), array_agg(c.reserved) INTO v_paying, v_balances, v_reserves FROM c;
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    SELECT max(greatest(s.debit_seq, s.release_seq)), min(s.reserve_seq), (array_agg(s.debit ORDER BY s.ord))[1], s.customer,
      count(*), v_now, array_agg(s.reserve_seq ORDER BY s.ord), array_agg(s.debit_seq ORDER BY s.ord),
      array_agg(s.release_seq ORDER BY s.ord), array_agg(s.id ORDER BY s.ord), array_agg(s.reserve ORDER BY s.ord),
      array_agg(s.debit ORDER BY s.ord), array_agg(CASE WHEN s.released > 0 THEN s.release END ORDER BY s.ord),
      array_agg(CASE WHEN s.share > 0 THEN s.payout END ORDER BY s.ord), array_agg(CASE WHEN s.fee > 0 THEN s.fee_entry END ORDER BY s.ord),
      array_agg(s.node ORDER BY s.ord), array_agg(s.kind ORDER BY s.ord), array_agg(n.payout_address ORDER BY s.ord),
      array_agg(s.charged ORDER BY s.ord), array_agg(s.share ORDER BY s.ord), array_agg(s.fee ORDER BY s.ord),
      array_agg(s.released ORDER BY s.ord), array_agg(s.balance ORDER BY s.ord), array_agg(s.reserved_left ORDER BY s.ord),
      array_agg(s.reserved_at::bigint ORDER BY s.ord), string_agg(decode(substr(s.hash, 3), 'hex'), ''::bytea ORDER BY s.ord),
      sum(s.charged), sum(s.share), sum(s.fee)
    FROM (
      SELECT o.*, nextval('ledger_entries_seq_seq') AS reserve_seq, nextval('ledger_entries_seq_seq') AS debit_seq,
        CASE WHEN o.released > 0 THEN nextval('ledger_entries_seq_seq') END AS release_seq
      FROM (
        SELECT q.*, q.reserved - q.charged AS released, c.balance - q.charged_so_far AS balance, c.reserved AS reserved_left
        FROM (
          SELECT u.*, sum(u.charged) OVER (PARTITION BY u.customer ORDER BY u.ord) AS charged_so_far
          FROM unnest(p_ids, p_customers, p_reserved, p_reserved_at, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_reserves,
              p_debits, p_releases, p_payouts, p_fee_entries)
            WITH ORDINALITY AS u (id, customer, reserved, reserved_at, charged, share, fee, hash, node, kind, reserve, debit, release, payout,
              fee_entry, ord)
        ) q
        JOIN unnest(v_paying, v_balances, v_reserves) AS c (customer, balance, reserved) ON c.customer = q.customer
        ORDER BY q.customer, q.ord OFFSET 0
      ) o
    ) s
    LEFT JOIN nodes n ON n.node_id = s.node
    GROUP BY s.customer;
END $$;
