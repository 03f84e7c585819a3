-- The same as receipts_insert_columns with a JSON array of the columns, as ledger_settle has it. A gateway of a version before sends
-- an array of objects instead.
CREATE OR REPLACE FUNCTION receipts_insert(p_receipts json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c text[];
BEGIN
  IF json_typeof(p_receipts -> 0) = 'object' THEN
    c := ARRAY(
      SELECT array_agg(o.member ->> n.name ORDER BY o.place)::text
      FROM unnest(ARRAY['hash', 'customer_id', 'signature', 'status', 'billed', 'node_receipt', 'issuer', 'request_id', 'job_id',
          'kind', 'node_id', 'node_class', 'runtime_id', 'runtime_kind', 'model_id', 'prompt_tokens', 'completion_tokens',
          'started_at', 'completed_at', 'client_nonce', 'request_commitment', 'response_commitment',
          'upstream_model_commitment']) WITH ORDINALITY AS n (name, place)
        CROSS JOIN json_array_elements(p_receipts) WITH ORDINALITY AS o (member, place)
      GROUP BY n.place ORDER BY n.place);
  ELSE
    c := ARRAY(SELECT value FROM json_array_elements_text(p_receipts));
  END IF;
  PERFORM receipts_insert_columns(c);
END $$;
--> statement-breakpoint
-- Receipts, with our columns beside the facts that were hashed. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
--
-- c: the text of an array for each column; an empty one is NULL in every row.
CREATE OR REPLACE FUNCTION receipts_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO receipts (receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id,
    kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment)
  SELECT DISTINCT ON (hash) r.*
  FROM unnest(c[1]::text[], c[2]::text[], c[3]::text[], c[4]::text[], c[5]::boolean[], c[6]::text[], c[7]::text[], c[8]::text[],
    c[9]::text[], c[10]::text[], c[11]::text[], c[12]::text[], c[13]::text[], c[14]::text[], c[15]::text[], c[16]::int[],
    c[17]::int[], c[18]::timestamptz[], c[19]::timestamptz[], c[20]::text[], c[21]::text[], c[22]::text[], c[23]::text[])
    AS r (hash)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipts.billed;
END $$;
--> statement-breakpoint
-- The same as request_records_insert_columns with a JSON array of the columns, for a gateway of a version before.
CREATE OR REPLACE FUNCTION request_records_insert(p_records json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM request_records_insert_columns(ARRAY(SELECT value FROM json_array_elements_text(p_records)));
END $$;
--> statement-breakpoint
-- Rows of finished requests: the text of an array for each column; an empty one is NULL in every row. It waits for no disk, and what is
-- there already stays as it is. A group that is sent again is rare, and looking for each row of every group before it is
-- written costs a tenth of it: so that is done only then.
CREATE OR REPLACE FUNCTION request_records_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  BEGIN
    INSERT INTO request_records (request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms,
      sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash,
      failed_tries)
    SELECT *
    FROM unnest(c[1]::text[], c[2]::timestamptz[], c[3]::text[], c[4]::text[], c[5]::text[], c[6]::boolean[], c[7]::text[],
      c[8]::text[], c[9]::smallint[], c[10]::int[], c[11]::int[], c[12]::int[], c[13]::int[], c[14]::int[], c[15]::int[],
      c[16]::int[], c[17]::smallint[], c[18]::smallint[], c[19]::text[], c[20]::numeric[], c[21]::text[], c[22]::jsonb[]);
  EXCEPTION WHEN unique_violation THEN
    INSERT INTO request_records (request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms,
      sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash,
      failed_tries)
    SELECT *
    FROM unnest(c[1]::text[], c[2]::timestamptz[], c[3]::text[], c[4]::text[], c[5]::text[], c[6]::boolean[], c[7]::text[],
      c[8]::text[], c[9]::smallint[], c[10]::int[], c[11]::int[], c[12]::int[], c[13]::int[], c[14]::int[], c[15]::int[],
      c[16]::int[], c[17]::smallint[], c[18]::smallint[], c[19]::text[], c[20]::numeric[], c[21]::text[], c[22]::jsonb[])
    ON CONFLICT DO NOTHING;
  END;
END $$;
