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
