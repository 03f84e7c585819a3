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
        THEN 'settled' WHEN l.lease = ANY (v_there) OR l.lease = ANY (v_late) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases, p_counts) WITH ORDINALITY AS l (lease, count, ord), generate_series(1, l.count) AS n;
  END IF;
END $$;
