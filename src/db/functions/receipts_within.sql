-- The receipts with p_from < seq <= p_to, in any order. Planned for itself: within a join the planner reads all groups for each row.
CREATE OR REPLACE FUNCTION receipts_within(p_from bigint, p_to bigint) RETURNS TABLE (seq bigint, receipt_hash text)
LANGUAGE plpgsql STABLE ROWS 256 AS $$
BEGIN
  RETURN QUERY SELECT r.seq, r.receipt_hash FROM receipts r
    WHERE r.group_last_seq > p_from AND r.group_last_seq < p_to + 100000 AND r.group_first_seq <= p_to
      AND r.seq > p_from AND r.seq <= p_to;
END $$;
