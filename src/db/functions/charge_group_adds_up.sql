-- The constraint of `charge_groups`, as one call: the server reads the text of each constraint anew for every statement, which
-- was two fifths of what a group of eight costs. Every column has one element for each charge, every sum is that of its
-- column, no sum is negative, every entry has its number, and what a row is known by is in it.
CREATE OR REPLACE FUNCTION charge_group_adds_up(g charge_groups) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_charged numeric := 0; v_shares numeric := 0; v_fees numeric := 0;
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
  FOR i IN 1 .. g.rows LOOP
    IF g.charged_wei[i] <= 0 OR g.share_wei[i] < 0 OR g.fee_wei[i] < 0 OR g.released_wei[i] < 0
        OR g.charged_wei[i] <> g.share_wei[i] + g.fee_wei[i] OR g.reserved_after_wei[i] < 0
        OR g.reserved_after_wei[i] + g.released_wei[i] > g.balance_after_wei[i]
        OR (g.released_wei[i] > 0) <> (g.release_seq[i] IS NOT NULL) OR (g.released_wei[i] > 0) <> (g.release_ids[i] IS NOT NULL)
        OR (g.share_wei[i] > 0) <> (g.payout_ids[i] IS NOT NULL) OR (g.fee_wei[i] > 0) <> (g.fee_ids[i] IS NOT NULL)
        OR g.debit_ids[i] IS NULL OR g.reservation_ids[i] IS NULL OR g.node_ids[i] IS NULL OR g.kinds[i] IS NULL THEN
      RETURN false;
    END IF;
    v_charged := v_charged + g.charged_wei[i]; v_shares := v_shares + g.share_wei[i]; v_fees := v_fees + g.fee_wei[i];
  END LOOP;
  RETURN v_charged = g.charged_total AND v_shares = g.shares_total AND v_fees = g.fees_total AND g.group_id = g.debit_ids[1]
    AND g.first_seq = coalesce(g.reserve_seq[1], g.debit_seq[1]) AND g.last_seq = greatest(g.debit_seq[g.rows], g.release_seq[g.rows])
    -- Who looks for the entries of a range of seq knows by this where to end. A statement that draws numbers for longer is cancelled.
    AND g.last_seq - g.first_seq < 1000000;
END $$;
