-- A group of receipts: the hash of the first, the hashes of all, the text of what they share, and the text of an array for each other
-- column; an empty one stands in `shared` or is NULL in every receipt; the mark of the process that issued them, which a gateway of the
-- version before does not send, nor how long after its end each was issued (c[16]). A group that is there stays as it is.
--
-- The lock comes before the numbers are drawn: by it the log knows who may still commit a smaller one (`readFence`). It is the
-- view's, which gateways of the version before know.
CREATE OR REPLACE FUNCTION receipt_group_insert(p_rows integer, p_hashes text, p_shared text, c text[], p_mac text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint[]; v_hashes bytea := p_hashes::bytea;
BEGIN
  LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
  v_seq := ARRAY(SELECT nextval('receipts_seq_seq') FROM generate_series(1, p_rows));
  INSERT INTO receipt_groups VALUES (v_seq[p_rows], v_seq[1], p_rows, now(), substring(v_hashes FOR 32), v_seq, v_hashes,
    p_shared::text[], nullif(c[1], '')::text[], nullif(c[2], '')::text[], nullif(c[3], '')::text[], nullif(c[4], '')::text[],
    nullif(c[5], '')::text[], nullif(c[6], '')::text[], nullif(c[7], '')::text[], nullif(c[8], '')::text[],
    nullif(c[9], '')::text[], nullif(c[10], '')::text[], nullif(c[11], '')::text[], nullif(c[12], '')::integer[],
    nullif(c[13], '')::integer[], nullif(c[14], '')::bigint[], nullif(c[15], '')::bigint[], p_mac,
    nullif(c[16], '')::integer[])
  ON CONFLICT (first_hash) DO NOTHING;
END $$;
