-- Rows of finished requests of a gateway of the version before this one, which still runs while this one comes up: the text of an
-- array for each column; an empty one is NULL in every row. What is there already stays as it is.
CREATE OR REPLACE FUNCTION request_records_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO request_records (request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms,
    sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash,
    failed_tries)
  SELECT *
  FROM unnest(c[1]::text[], c[2]::timestamptz[], c[3]::text[], c[4]::text[], c[5]::text[], c[6]::boolean[], c[7]::text[],
    c[8]::text[], c[9]::smallint[], c[10]::int[], c[11]::int[], c[12]::int[], c[13]::int[], c[14]::int[], c[15]::int[],
    c[16]::int[], c[17]::smallint[], c[18]::smallint[], c[19]::text[], c[20]::numeric[], c[21]::text[], c[22]::jsonb[]);
END $$;
