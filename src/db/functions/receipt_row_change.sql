-- Who writes into the view `receipts` writes rows: gateways of the version before, while they are replaced, and people by hand. Receipts
-- in groups do not change.
CREATE OR REPLACE FUNCTION receipt_row_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO receipt_rows (receipt_hash, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
        prompt_tokens, completion_tokens, started_at, completed_at, client_nonce, request_commitment, response_commitment,
        upstream_model_commitment, customer_id, signature_ed25519, node_receipt, status, billed, batch_id, created_at,
        issued_at)
      VALUES (NEW.receipt_hash, NEW.issuer, NEW.request_id, NEW.job_id, NEW.kind, NEW.node_id, NEW.node_class, NEW.runtime_id,
        NEW.runtime_kind, NEW.model_id, NEW.prompt_tokens, NEW.completion_tokens, NEW.started_at, NEW.completed_at, NEW.client_nonce,
        NEW.request_commitment, NEW.response_commitment, NEW.upstream_model_commitment, NEW.customer_id, NEW.signature_ed25519,
        NEW.node_receipt, coalesce(NEW.status, 'accepted'), coalesce(NEW.billed, false), NEW.batch_id, coalesce(NEW.created_at, now()),
        NEW.issued_at);
    RETURN NEW;
  END IF;
  IF OLD.group_first_seq <> OLD.group_last_seq OR NOT EXISTS (SELECT 1 FROM receipt_rows r WHERE r.receipt_hash = OLD.receipt_hash) THEN
    RAISE EXCEPTION 'a receipt in a group does not change' USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF TG_OP = 'DELETE' THEN
    DELETE FROM receipt_rows r WHERE r.receipt_hash = OLD.receipt_hash;
    RETURN OLD;
  END IF;
  UPDATE receipt_rows r SET receipt_hash = NEW.receipt_hash, issuer = NEW.issuer, request_id = NEW.request_id, job_id = NEW.job_id,
      kind = NEW.kind, node_id = NEW.node_id, node_class = NEW.node_class, runtime_id = NEW.runtime_id,
      runtime_kind = NEW.runtime_kind, model_id = NEW.model_id, prompt_tokens = NEW.prompt_tokens,
      completion_tokens = NEW.completion_tokens, started_at = NEW.started_at, completed_at = NEW.completed_at,
      client_nonce = NEW.client_nonce, request_commitment = NEW.request_commitment, response_commitment = NEW.response_commitment,
      upstream_model_commitment = NEW.upstream_model_commitment, customer_id = NEW.customer_id,
      signature_ed25519 = NEW.signature_ed25519, node_receipt = NEW.node_receipt, status = NEW.status, billed = NEW.billed,
      batch_id = NEW.batch_id, created_at = NEW.created_at, issued_at = NEW.issued_at
    WHERE r.receipt_hash = OLD.receipt_hash;
  RETURN NEW;
END $$;
