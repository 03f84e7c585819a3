CREATE TABLE "receipt_versions" (
	"version" text PRIMARY KEY NOT NULL,
	"issued_from" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
-- Gateways of the version before, which may run beside for an hour, read a receipt v3 as one of v1 or v2.
INSERT INTO receipt_versions SELECT 'svc-receipt-v3', CASE WHEN EXISTS (SELECT 1 FROM receipt_rows)
	OR EXISTS (SELECT 1 FROM receipt_groups) THEN now() + interval '1 hour' ELSE 'epoch' END;
--> statement-breakpoint
ALTER TABLE "log_receipts" ADD COLUMN "taken_at" timestamp (3) with time zone;
--> statement-breakpoint
-- Of runs that are there already nobody knows it.
ALTER TABLE "log_receipts" ALTER COLUMN "taken_at" SET DEFAULT now();
--> statement-breakpoint
ALTER TABLE "receipt_rows" ADD COLUMN "issued_at" timestamp (3) with time zone;
--> statement-breakpoint
-- How long after its end each was issued, ms: the same for all that a gateway issued itself. NULL, and none in `shared`: of v1.
ALTER TABLE receipt_groups ADD COLUMN issued_after_ms integer[];
--> statement-breakpoint
CREATE OR REPLACE VIEW receipts AS
	SELECT r.receipt_hash, r.seq, r.issuer, r.request_id, r.job_id, r.kind, r.node_id, r.node_class, r.runtime_id, r.runtime_kind,
		r.model_id, r.prompt_tokens, r.completion_tokens, r.started_at, r.completed_at, r.client_nonce, r.request_commitment,
		r.response_commitment, r.upstream_model_commitment, r.customer_id, r.signature_ed25519, r.node_receipt, r.status, r.billed,
		r.batch_id, r.created_at, r.seq AS group_first_seq, r.seq AS group_last_seq, r.issued_at
	FROM receipt_rows r
	UNION ALL
	SELECT '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), u.seq, coalesce(u.issuer, g.shared[3]),
		coalesce(u.request_id, g.shared[4]), coalesce(u.job_id, g.shared[5]), coalesce(u.kind, g.shared[6]),
		coalesce(u.node_id, g.shared[7]), coalesce(u.node_class, g.shared[8]), coalesce(u.runtime_id, g.shared[9]),
		coalesce(u.runtime_kind, g.shared[10]), coalesce(u.model_id, g.shared[11]),
		coalesce(u.prompt_tokens, g.shared[12]::integer), coalesce(u.completion_tokens, g.shared[13]::integer),
		('epoch'::timestamptz + coalesce(u.started_ms, g.shared[14]::bigint) * interval '1 millisecond')::timestamp (3) with time zone,
		('epoch'::timestamptz + coalesce(u.completed_ms, g.shared[15]::bigint) * interval '1 millisecond')::timestamp (3) with time zone,
		NULL, NULL, NULL, NULL, coalesce(u.customer_id, g.shared[1]), coalesce(u.signature_ed25519, g.shared[2]), NULL, 'accepted',
		false, NULL, g.created_at, g.first_seq, g.last_seq,
		('epoch'::timestamptz + (coalesce(u.completed_ms, g.shared[15]::bigint) + coalesce(u.issued_after_ms, g.shared[16]::integer))
			* interval '1 millisecond')::timestamp (3) with time zone
	-- Fetched once for a group: a part of what is stored elsewhere is fetched by itself, each time.
	FROM receipt_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(
		g.seq, g.customer_id, g.signature_ed25519, g.issuer, g.request_id, g.job_id, g.kind, g.node_id, g.node_class, g.runtime_id,
		g.runtime_kind, g.model_id, g.prompt_tokens, g.completion_tokens, g.started_ms, g.completed_ms, g.issued_after_ms
	) WITH ORDINALITY AS u (
		seq, customer_id, signature_ed25519, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
		prompt_tokens, completion_tokens, started_ms, completed_ms, issued_after_ms, place
	);
--> statement-breakpoint
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
--> statement-breakpoint
-- Receipts, with our columns beside the facts that were hashed. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
--
-- The lock comes before the numbers (seq) are drawn, as in receipt_group_insert.
--
-- c: the text of an array for each column; an empty one is NULL in every row, and so are the mark and the time of the issue behind it, of
-- gateways of versions before.
CREATE OR REPLACE FUNCTION receipts_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
  INSERT INTO receipt_rows (receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id,
    kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment, mac, issued_at)
  SELECT DISTINCT ON (hash) r.*
  FROM unnest(c[1]::text[], c[2]::text[], c[3]::text[], c[4]::text[], c[5]::boolean[], c[6]::text[], c[7]::text[], c[8]::text[],
    c[9]::text[], c[10]::text[], c[11]::text[], c[12]::text[], c[13]::text[], c[14]::text[], c[15]::text[], c[16]::int[],
    c[17]::int[], c[18]::timestamptz[], c[19]::timestamptz[], c[20]::text[], c[21]::text[], c[22]::text[], c[23]::text[], c[24]::text[],
    c[25]::timestamptz[])
    AS r (hash)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipt_rows.billed;
END $$;
--> statement-breakpoint
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
