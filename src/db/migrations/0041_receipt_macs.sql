ALTER TABLE "receipt_rows" ADD COLUMN "mac" text;
--> statement-breakpoint
ALTER TABLE receipt_groups ADD COLUMN mac text;
--> statement-breakpoint
CREATE TABLE "log_waiting" (
	"last_seq" bigint NOT NULL,
	"grouped" boolean NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "log_waiting_last_seq_grouped_pk" PRIMARY KEY("last_seq","grouped")
);
--> statement-breakpoint
DROP FUNCTION receipt_group_insert(integer, text, text, text[]);
--> statement-breakpoint
-- A group of receipts: the hash of the first, the hashes of all, the text of what they share, and the text of an array for each other
-- column; an empty one stands in `shared` or is NULL in every receipt; the mark of the process that issued them, which a gateway of the
-- version before does not send. A group that is there stays as it is.
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
    nullif(c[13], '')::integer[], nullif(c[14], '')::bigint[], nullif(c[15], '')::bigint[], p_mac)
  ON CONFLICT (first_hash) DO NOTHING;
END $$;
--> statement-breakpoint
-- Receipts, with our columns beside the facts that were hashed. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
--
-- The lock comes before the numbers (seq) are drawn, as in receipt_group_insert.
--
-- c: the text of an array for each column; an empty one is NULL in every row, and so is the last, the mark, of a gateway of the version
-- before.
CREATE OR REPLACE FUNCTION receipts_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
  INSERT INTO receipt_rows (receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id,
    kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment, mac)
  SELECT DISTINCT ON (hash) r.*
  FROM unnest(c[1]::text[], c[2]::text[], c[3]::text[], c[4]::text[], c[5]::boolean[], c[6]::text[], c[7]::text[], c[8]::text[],
    c[9]::text[], c[10]::text[], c[11]::text[], c[12]::text[], c[13]::text[], c[14]::text[], c[15]::text[], c[16]::int[],
    c[17]::int[], c[18]::timestamptz[], c[19]::timestamptz[], c[20]::text[], c[21]::text[], c[22]::text[], c[23]::text[], c[24]::text[])
    AS r (hash)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipt_rows.billed;
END $$;
