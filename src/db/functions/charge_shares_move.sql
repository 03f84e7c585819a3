-- Makes rows of the shares of these groups, all of a group at once: a batch takes rows. Of two who do it at once the second
-- waits, and finds it done.
CREATE OR REPLACE FUNCTION charge_shares_move(p_groups bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH locked AS (
    SELECT g.last_seq FROM charge_groups g WHERE g.last_seq = ANY (p_groups) AND NOT g.shares_moved ORDER BY g.last_seq FOR UPDATE
  ), moved AS (
    UPDATE charge_groups g SET shares_moved = true FROM locked l WHERE g.last_seq = l.last_seq RETURNING g.last_seq
  )
  INSERT INTO payout_rows (entry_id, node_id, receipt_hash, kind, amount_wei, gross_wei, earned_payee, payee, created_at, updated_at)
    SELECT s.entry_id, s.node_id, s.receipt_hash, s.kind, s.amount_wei, s.gross_wei, s.earned_payee, s.earned_payee, s.created_at,
      s.created_at
    FROM moved m JOIN charge_shares s ON s.group_last_seq = m.last_seq;
$$;
