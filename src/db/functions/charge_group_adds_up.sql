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
