-- Receipts, with our columns beside the facts that were hashed. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
--
-- The lock comes before the numbers (seq) are drawn, as in receipt_group_insert.
--
-- c: the text of an array for each column; an empty one is NULL in every row, and so are the mark, the time of the issue and the
-- price behind it, of gateways of versions before.
CREATE OR REPLACE FUNCTION receipts_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
  INSERT INTO receipt_rows (receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id,
    kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment, mac, issued_at, price)
  SELECT DISTINCT ON (hash) r.*
  FROM unnest(c[1]::text[], c[2]::text[], c[3]::text[], c[4]::text[], c[5]::boolean[], c[6]::text[], c[7]::text[], c[8]::text[],
    c[9]::text[], c[10]::text[], c[11]::text[], c[12]::text[], c[13]::text[], c[14]::text[], c[15]::text[], c[16]::int[],
    c[17]::int[], c[18]::timestamptz[], c[19]::timestamptz[], c[20]::text[], c[21]::text[], c[22]::text[], c[23]::text[], c[24]::text[],
    c[25]::timestamptz[], c[26]::text[])
    AS r (hash)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipt_rows.billed;
END $$;
