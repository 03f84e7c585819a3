ALTER TABLE "receipts" ADD COLUMN "client_nonce" text;--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "request_commitment" text;--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "response_commitment" text;--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "upstream_model_commitment" text;--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "node_receipt" text;--> statement-breakpoint
-- Receipts as the JSON that was hashed, with our columns beside it. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
CREATE OR REPLACE FUNCTION receipts_insert(p_receipts json) RETURNS void LANGUAGE sql AS $$
  INSERT INTO receipts (receipt_hash, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind,
    model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, signature_ed25519, status, billed,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment, node_receipt)
  SELECT DISTINCT ON (hash) hash, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind,
    model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, signature, status, billed,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment, node_receipt
  FROM json_to_recordset(p_receipts) AS r (hash text, customer_id text, signature text, status text, billed boolean,
    issuer text, request_id text, job_id text, kind text, node_id text, node_class text, runtime_id text,
    runtime_kind text, model_id text, prompt_tokens int, completion_tokens int, started_at timestamptz,
    completed_at timestamptz, client_nonce text, request_commitment text, response_commitment text,
    upstream_model_commitment text, node_receipt text)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipts.billed
$$;
