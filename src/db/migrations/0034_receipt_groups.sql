-- Receipts in groups (docs/decisions/0025). What `receipts` was is `receipt_rows`, for receipts that are paid for, jobs' and others that
-- may change; the rest stands in `receipt_groups`, and `receipts` is a view of both.
ALTER TABLE receipts RENAME TO receipt_rows;
--> statement-breakpoint
-- Receipts that were written together, as one row: an array for each column of theirs, one element for each receipt. All are accepted and
-- none is paid for, so that nothing of them ever changes. `hashes` has their hashes, 32 bytes each, one behind the other. `shared` has the
-- value of each column that is the same in all, by the column's place behind `shared`; its array is NULL then. A group is known by the
-- hash of its first receipt, so that one that is sent again is there once.
CREATE TABLE receipt_groups (
	last_seq bigint PRIMARY KEY NOT NULL,
	first_seq bigint NOT NULL,
	rows integer NOT NULL,
	created_at timestamp (3) with time zone DEFAULT now() NOT NULL,
	first_hash bytea NOT NULL UNIQUE,
	seq bigint[] NOT NULL,
	hashes bytea NOT NULL,
	shared text[] NOT NULL,
	customer_id text[],
	signature_ed25519 text[],
	issuer text[],
	request_id text[],
	job_id text[],
	kind text[],
	node_id text[],
	node_class text[],
	runtime_id text[],
	runtime_kind text[],
	model_id text[],
	prompt_tokens integer[],
	completion_tokens integer[],
	started_ms bigint[],
	completed_ms bigint[],
	CONSTRAINT receipt_groups_whole CHECK (rows > 0 AND cardinality(seq) = rows AND octet_length(hashes) = 32 * rows
		AND seq[1] = first_seq AND seq[rows] = last_seq AND first_hash = substring(hashes for 32)),
	-- Who looks for the receipts of a range of seq knows by this where to end.
	CONSTRAINT receipt_groups_close CHECK (last_seq - first_seq < 100000)
);
--> statement-breakpoint
-- Ids and hashes do not shrink, and trying it costs more than all the rest of a group.
ALTER TABLE receipt_groups
	ALTER COLUMN seq SET STORAGE EXTERNAL,
	ALTER COLUMN hashes SET STORAGE EXTERNAL,
	ALTER COLUMN shared SET STORAGE EXTERNAL,
	ALTER COLUMN customer_id SET STORAGE EXTERNAL,
	ALTER COLUMN signature_ed25519 SET STORAGE EXTERNAL,
	ALTER COLUMN issuer SET STORAGE EXTERNAL,
	ALTER COLUMN request_id SET STORAGE EXTERNAL,
	ALTER COLUMN job_id SET STORAGE EXTERNAL,
	ALTER COLUMN kind SET STORAGE EXTERNAL,
	ALTER COLUMN node_id SET STORAGE EXTERNAL,
	ALTER COLUMN node_class SET STORAGE EXTERNAL,
	ALTER COLUMN runtime_id SET STORAGE EXTERNAL,
	ALTER COLUMN runtime_kind SET STORAGE EXTERNAL,
	ALTER COLUMN model_id SET STORAGE EXTERNAL,
	ALTER COLUMN prompt_tokens SET STORAGE EXTERNAL,
	ALTER COLUMN completion_tokens SET STORAGE EXTERNAL,
	ALTER COLUMN started_ms SET STORAGE EXTERNAL,
	ALTER COLUMN completed_ms SET STORAGE EXTERNAL,
	-- Nobody filters by what is in these arrays, and to analyze them costs more than to write them.
	ALTER COLUMN seq SET STATISTICS 0,
	ALTER COLUMN hashes SET STATISTICS 0,
	ALTER COLUMN shared SET STATISTICS 0,
	ALTER COLUMN customer_id SET STATISTICS 0,
	ALTER COLUMN signature_ed25519 SET STATISTICS 0,
	ALTER COLUMN issuer SET STATISTICS 0,
	ALTER COLUMN request_id SET STATISTICS 0,
	ALTER COLUMN job_id SET STATISTICS 0,
	ALTER COLUMN kind SET STATISTICS 0,
	ALTER COLUMN node_id SET STATISTICS 0,
	ALTER COLUMN node_class SET STATISTICS 0,
	ALTER COLUMN runtime_id SET STATISTICS 0,
	ALTER COLUMN runtime_kind SET STATISTICS 0,
	ALTER COLUMN model_id SET STATISTICS 0,
	ALTER COLUMN prompt_tokens SET STATISTICS 0,
	ALTER COLUMN completion_tokens SET STATISTICS 0,
	ALTER COLUMN started_ms SET STATISTICS 0,
	ALTER COLUMN completed_ms SET STATISTICS 0;
--> statement-breakpoint
-- Where each receipt of a group is, by the first 8 bytes of its hash. Sorted runs, each made at once (`receipt_places_make`): a partition
-- has the places of the groups from one last_seq to another. What is newer than the newest run is looked for in the groups themselves.
CREATE TABLE receipt_places (
	hash_start bytea,
	last_seq bigint,
	place smallint
) PARTITION BY RANGE (last_seq);
--> statement-breakpoint
CREATE TABLE receipt_place_runs (
	from_seq bigint NOT NULL,
	to_seq bigint PRIMARY KEY NOT NULL,
	level smallint NOT NULL
);
--> statement-breakpoint
-- A receipt a row, as it is asked for, with the ends of its group, so that a question for a range of seq can leave groups out.
CREATE VIEW receipts AS
	SELECT r.receipt_hash, r.seq, r.issuer, r.request_id, r.job_id, r.kind, r.node_id, r.node_class, r.runtime_id, r.runtime_kind,
		r.model_id, r.prompt_tokens, r.completion_tokens, r.started_at, r.completed_at, r.client_nonce, r.request_commitment,
		r.response_commitment, r.upstream_model_commitment, r.customer_id, r.signature_ed25519, r.node_receipt, r.status, r.billed,
		r.batch_id, r.created_at, r.seq AS group_first_seq, r.seq AS group_last_seq
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
		false, NULL, g.created_at, g.first_seq, g.last_seq
	-- Fetched once for a group: a part of what is stored elsewhere is fetched by itself, each time.
	FROM receipt_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(
		g.seq, g.customer_id, g.signature_ed25519, g.issuer, g.request_id, g.job_id, g.kind, g.node_id, g.node_class, g.runtime_id,
		g.runtime_kind, g.model_id, g.prompt_tokens, g.completion_tokens, g.started_ms, g.completed_ms
	) WITH ORDINALITY AS u (
		seq, customer_id, signature_ed25519, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
		prompt_tokens, completion_tokens, started_ms, completed_ms, place
	);
--> statement-breakpoint
-- The receipts with p_from < seq <= p_to, in any order. Planned for itself: within a join the planner reads all groups for each row.
CREATE OR REPLACE FUNCTION receipts_within(p_from bigint, p_to bigint) RETURNS TABLE (seq bigint, receipt_hash text)
LANGUAGE plpgsql STABLE ROWS 256 AS $$
BEGIN
  RETURN QUERY SELECT r.seq, r.receipt_hash FROM receipts r
    WHERE r.group_last_seq > p_from AND r.group_last_seq < p_to + 100000 AND r.group_first_seq <= p_to
      AND r.seq > p_from AND r.seq <= p_to;
END $$;
--> statement-breakpoint
-- The last seq of the group that has the receipt; NULL: none has. Groups that no run of places has yet are looked through.
CREATE OR REPLACE FUNCTION receipt_group_of(p_hash text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_hash bytea;
BEGIN
  IF p_hash !~ '^0x[0-9a-f]{64}$' THEN RETURN NULL; END IF;
  v_hash := decode(substr(p_hash, 3), 'hex');
  RETURN (
    SELECT g.last_seq FROM receipt_places p JOIN receipt_groups g USING (last_seq)
      WHERE p.hash_start = substring(v_hash FOR 8) AND substring(g.hashes FROM 32 * p.place - 31 FOR 32) = v_hash
    UNION ALL
    SELECT g.last_seq FROM receipt_groups g
      WHERE g.last_seq > (SELECT coalesce(max(r.to_seq), 0) FROM receipt_place_runs r) AND position(v_hash IN g.hashes) % 32 = 1
    LIMIT 1);
END $$;
--> statement-breakpoint
-- A group of receipts: the hash of the first, the hashes of all, the text of what they share, and the text of an array for each other
-- column; an empty one stands in `shared` or is NULL in every receipt. A group that is there stays as it is.
--
-- The lock comes before the numbers are drawn: by it the log knows who may still commit a smaller one (`readFence`). It is the
-- view's, which gateways of the version before know.
CREATE OR REPLACE FUNCTION receipt_group_insert(p_rows integer, p_hashes text, p_shared text, c text[])
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
    nullif(c[13], '')::integer[], nullif(c[14], '')::bigint[], nullif(c[15], '')::bigint[])
  ON CONFLICT (first_hash) DO NOTHING;
END $$;
--> statement-breakpoint
-- Makes the next run of places, of the oldest p_rows receipts that the log has taken and no run has, or puts eight runs of one level
-- together as one of the next (a log-structured merge tree: a lookup asks few runs, and a place is written again for each level
-- alone); false: there is nothing to do.
CREATE OR REPLACE FUNCTION receipt_places_make(p_rows integer) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_level smallint; v_from bigint; v_to bigint; v_name text; v_old text[] := '{}';
BEGIN
  IF NOT pg_try_advisory_xact_lock(7413, 77) THEN RETURN false; END IF;
  SELECT o.level, min(o.from_seq), max(o.to_seq), array_agg(format('receipt_places_%s_%s', o.to_seq, o.level))
    INTO v_level, v_from, v_to, v_old
    FROM (SELECT r.*, row_number() OVER (PARTITION BY r.level ORDER BY r.to_seq) AS place FROM receipt_place_runs r) o
    WHERE o.place <= 8 GROUP BY o.level HAVING count(*) = 8 ORDER BY o.level LIMIT 1;
  IF FOUND THEN
    v_level := v_level + 1;
    v_name := format('receipt_places_%s_%s', v_to, v_level);
    EXECUTE format('CREATE TABLE %I AS SELECT * FROM receipt_places WHERE last_seq > %s AND last_seq <= %s ORDER BY hash_start',
      v_name, v_from, v_to);
  ELSE
    v_level := 0; v_old := '{}';
    SELECT coalesce(max(r.to_seq), 0) INTO v_from FROM receipt_place_runs r;
    SELECT g.last_seq INTO v_to FROM (
      SELECT o.last_seq, sum(o.rows) OVER (ORDER BY o.last_seq) AS rows FROM receipt_groups o
      WHERE o.last_seq > v_from AND o.last_seq <= (SELECT s.receipts_to FROM log_state s)
    ) g WHERE g.rows >= p_rows ORDER BY g.last_seq LIMIT 1;
    IF NOT FOUND THEN RETURN false; END IF;
    v_name := format('receipt_places_%s_0', v_to);
    EXECUTE format('CREATE TABLE %I AS SELECT substring(h.hashes FROM 32 * p - 31 FOR 8) AS hash_start, g.last_seq, p::smallint AS place
      FROM receipt_groups g, LATERAL (SELECT g.hashes || ''''::bytea AS hashes OFFSET 0) h, generate_series(1, g.rows) AS p WHERE g.last_seq > %s AND g.last_seq <= %s ORDER BY 1', v_name, v_from, v_to);
  END IF;
  EXECUTE format('CREATE INDEX ON %I (hash_start)', v_name);
  FOR v_place IN 1 .. coalesce(cardinality(v_old), 0) LOOP
    EXECUTE format('DROP TABLE %I', v_old[v_place]);
  END LOOP;
  DELETE FROM receipt_place_runs r WHERE r.to_seq > v_from AND r.to_seq <= v_to;
  EXECUTE format('ALTER TABLE receipt_places ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', v_name, v_from + 1, v_to + 1);
  INSERT INTO receipt_place_runs VALUES (v_from, v_to, v_level);
  RETURN true;
END $$;
--> statement-breakpoint
-- Who writes into the view `receipts` writes rows: gateways of the version before, while they are replaced, and people by hand. Receipts
-- in groups do not change.
CREATE OR REPLACE FUNCTION receipt_row_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO receipt_rows (receipt_hash, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
        prompt_tokens, completion_tokens, started_at, completed_at, client_nonce, request_commitment, response_commitment,
        upstream_model_commitment, customer_id, signature_ed25519, node_receipt, status, billed, batch_id, created_at)
      VALUES (NEW.receipt_hash, NEW.issuer, NEW.request_id, NEW.job_id, NEW.kind, NEW.node_id, NEW.node_class, NEW.runtime_id,
        NEW.runtime_kind, NEW.model_id, NEW.prompt_tokens, NEW.completion_tokens, NEW.started_at, NEW.completed_at, NEW.client_nonce,
        NEW.request_commitment, NEW.response_commitment, NEW.upstream_model_commitment, NEW.customer_id, NEW.signature_ed25519,
        NEW.node_receipt, coalesce(NEW.status, 'accepted'), coalesce(NEW.billed, false), NEW.batch_id, coalesce(NEW.created_at, now()));
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
      batch_id = NEW.batch_id, created_at = NEW.created_at
    WHERE r.receipt_hash = OLD.receipt_hash;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER receipt_row_change INSTEAD OF INSERT OR UPDATE OR DELETE ON receipts FOR EACH ROW EXECUTE FUNCTION receipt_row_change();
--> statement-breakpoint
DROP VIEW log_contents;
--> statement-breakpoint
-- Every entry of the log, whichever table it stands in. `first_index` is its run's, by which a part of the log is found.
CREATE VIEW log_contents AS
SELECT e.entry_index AS first_index, e.entry_index, e.kind, e.hash FROM log_entries e
UNION ALL
SELECT l.first_index, l.first_index + row_number() OVER (PARTITION BY l.first_index ORDER BY r.seq) - 1, 'receipt', r.receipt_hash
FROM log_receipts l CROSS JOIN LATERAL receipts_within(l.from_seq, l.to_seq) r;
--> statement-breakpoint
-- Receipts, with our columns beside the facts that were hashed. One that is there stays as it is, but for this: a
-- receipt whose charge was refused stands there as not billed. Where the charge goes through after all (the reservation was
-- lost with the database and is made again), it becomes a billed one. One statement may have a receipt twice.
--
-- The lock comes before the numbers (seq) are drawn, as in receipt_group_insert.
--
-- c: the text of an array for each column; an empty one is NULL in every row.
CREATE OR REPLACE FUNCTION receipts_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
  INSERT INTO receipt_rows (receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id,
    kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at,
    client_nonce, request_commitment, response_commitment, upstream_model_commitment)
  SELECT DISTINCT ON (hash) r.*
  FROM unnest(c[1]::text[], c[2]::text[], c[3]::text[], c[4]::text[], c[5]::boolean[], c[6]::text[], c[7]::text[], c[8]::text[],
    c[9]::text[], c[10]::text[], c[11]::text[], c[12]::text[], c[13]::text[], c[14]::text[], c[15]::text[], c[16]::int[],
    c[17]::int[], c[18]::timestamptz[], c[19]::timestamptz[], c[20]::text[], c[21]::text[], c[22]::text[], c[23]::text[])
    AS r (hash)
  ON CONFLICT (receipt_hash) DO UPDATE SET billed = true, status = excluded.status
    WHERE excluded.billed AND NOT receipt_rows.billed;
END $$;
--> statement-breakpoint
-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. Receipt, share and fee are written
-- with the debit, so that debits = payouts + fees at every commit. Answers with what is not simply settled, by its place
-- from 1: `closed`: the reservation was closed before with another outcome (released as stale, for instance), nothing is
-- debited; `unknown`.
--
-- Whoever closes a reservation has its row, and whoever comes second waits and finds it closed: so all that belongs to one
-- request alone is written first, and the customer, for whom others wait, is locked last, in the order of their ids where
-- there are several.
--
-- `settled_wei IS NULL` says the same of a reservation as `status = 'open'` (a constraint of the table), and is no reason to
-- look through the index of the open ones: until it is vacuumed that holds every reservation there ever was, and each
-- group read all of it (measured: 5 of 8 ms a group after 50,000 requests, and growing).
--
-- Planned once and not for each call: planning was a fifth of a group of one (908 and 691 µs), and nothing of a large one.
CREATE OR REPLACE FUNCTION ledger_settle(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_count int := cardinality(p_ids);
  v_whole boolean; v_places int[]; v_customers text[]; v_reserved numeric[]; v_jobs text[];
BEGIN
  WITH o AS (
    UPDATE reservations o SET status = CASE WHEN q.charged > 0 THEN 'settled' ELSE 'released' END,
        settled_wei = q.charged, receipt_hash = q.hash, closed_at = v_now
      FROM (SELECT * FROM unnest(p_ids, p_charged, p_shares, p_fees, p_hashes) WITH ORDINALITY
          AS u (id, charged, share, fee, hash, ord) ORDER BY u.id) q
      WHERE o.reservation_id = q.id AND o.settled_wei IS NULL
      RETURNING q.ord::int, o.customer_id, o.amount_wei, o.private_job_id,
        q.charged = q.share + q.fee AND q.charged >= 0 AS whole
  )
  SELECT array_agg(o.ord ORDER BY o.ord), array_agg(o.customer_id ORDER BY o.ord), array_agg(o.amount_wei ORDER BY o.ord),
      array_agg(o.private_job_id ORDER BY o.ord), bool_and(o.whole)
    INTO v_places, v_customers, v_reserved, v_jobs, v_whole FROM o;
  IF NOT v_whole THEN
    RAISE EXCEPTION 'a charge is not its share and fee' USING ERRCODE = 'check_violation';
  END IF;
  IF cardinality(v_places) IS DISTINCT FROM v_count THEN
    -- Each at its place again, and nothing where no reservation was closed.
    SELECT array_agg(o.customer ORDER BY g.ord), array_agg(o.reserved ORDER BY g.ord), array_agg(o.job ORDER BY g.ord)
      INTO v_customers, v_reserved, v_jobs
      FROM generate_series(1, v_count) AS g (ord)
      LEFT JOIN unnest(v_places, v_customers, v_reserved, v_jobs) AS o (ord, customer, reserved, job) ON o.ord = g.ord;
  END IF;
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  INSERT INTO payouts (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held, earned_payee,
      payee, created_at, updated_at)
    SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, n.payout_address, n.payout_address, v_now,
      v_now
    FROM unnest(v_customers, v_jobs, p_charged, p_shares, p_hashes, p_nodes, p_kinds, p_held, p_payouts)
      AS q (customer, job, charged, share, hash, node, kind, held, payout)
    LEFT JOIN nodes n ON n.node_id = q.node
    WHERE q.share > 0 AND q.customer IS NOT NULL;
  INSERT INTO protocol_fees (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
    SELECT q.entry, q.hash, q.job, q.fee, v_now
    FROM unnest(v_customers, v_jobs, p_fees, p_hashes, p_fee_entries) AS q (customer, job, fee, hash, entry)
    WHERE q.fee > 0 AND q.customer IS NOT NULL;
  IF NOT coalesce(v_customers[1] = ALL (v_customers), false) THEN
    PERFORM 1 FROM customers c WHERE c.customer_id = ANY (v_customers) ORDER BY c.customer_id FOR UPDATE;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
    FROM unnest(p_ids, v_customers, v_reserved, v_jobs, p_charged, p_hashes, p_debits, p_releases) WITH ORDINALITY
      AS u (id, customer, reserved, job, charged, hash, debit, release, ord)
    WHERE u.customer IS NOT NULL
    WINDOW w AS (PARTITION BY u.customer ORDER BY u.ord)
  ), c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei - s.reserved, balance_wei = c.balance_wei - s.charged
      FROM (SELECT q.customer, sum(q.reserved) AS reserved, sum(q.charged) AS charged FROM q GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei + s.reserved AS reserved,
        clock_timestamp() AS at
  )
  INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, receipt_hash, created_at)
    SELECT e.entry, q.customer, e.kind, e.amount, c.balance - q.charged_so_far,
      c.reserved - q.reserved_so_far + e.still_reserved, q.id, q.job, q.hash, c.at
    FROM q
    JOIN c ON c.customer_id = q.customer
    CROSS JOIN LATERAL (VALUES
      (1, q.debit, 'debit', q.charged, q.reserved - q.charged),
      (2, q.release, 'release', q.reserved - q.charged, 0)) AS e (turn, entry, kind, amount, still_reserved)
    WHERE e.amount > 0
    ORDER BY q.ord, e.turn;
  IF cardinality(v_places) = v_count THEN RETURN; END IF;
  RETURN QUERY
    SELECT q.ord::int, CASE WHEN o.reservation_id IS NULL THEN 'unknown' ELSE 'closed' END
    FROM unnest(p_ids, p_charged, p_hashes) WITH ORDINALITY AS q (id, charged, hash, ord)
    LEFT JOIN reservations o ON o.reservation_id = q.id
    WHERE o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash;
  -- Nobody pays for work whose reservation had ended: its receipt is not a billed one.
  IF FOUND THEN
    UPDATE receipt_rows x SET billed = false, status = 'accepted'
      FROM unnest(p_ids, p_charged, p_hashes) AS q (id, charged, hash)
      LEFT JOIN reservations o ON o.reservation_id = q.id
      WHERE x.receipt_hash = q.hash AND x.billed
        AND (o.settled_wei IS DISTINCT FROM q.charged OR o.receipt_hash IS DISTINCT FROM q.hash);
  END IF;
END $$;
