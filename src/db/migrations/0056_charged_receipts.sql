-- As gateways of the version before take them, which charge meanwhile: the view of entries with its tables first, then leases, then receipts.
DO $$ BEGIN
  IF to_regclass('ledger_entries') IS NOT NULL THEN LOCK TABLE ledger_entries IN ACCESS EXCLUSIVE MODE; END IF;
END $$;
--> statement-breakpoint
ALTER TABLE "money_leases" ADD COLUMN "calls" bigint DEFAULT 0 NOT NULL;
--> statement-breakpoint
-- Receipts of charges stand in groups as well: such a group is billed. `price`: of each receipt the prices of its quote, with their mark.
ALTER TABLE receipt_groups ADD COLUMN price text[], ADD COLUMN billed boolean NOT NULL DEFAULT false;
--> statement-breakpoint
ALTER TABLE receipt_groups ALTER COLUMN price SET STATISTICS 0, ALTER COLUMN price SET STORAGE EXTERNAL;
--> statement-breakpoint
CREATE INDEX receipt_groups_billed_index ON receipt_groups USING btree (created_at) WHERE billed;
--> statement-breakpoint
-- What a receipt of a billed group has become is what its payout has: it is never held, and so never rejected. A share is a row of
-- `payout_rows` once a batch has taken one of its group.
CREATE OR REPLACE VIEW receipts AS
	SELECT r.receipt_hash, r.seq, r.issuer, r.request_id, r.job_id, r.kind, r.node_id, r.node_class, r.runtime_id, r.runtime_kind,
		r.model_id, r.prompt_tokens, r.completion_tokens, r.started_at, r.completed_at, r.client_nonce, r.request_commitment,
		r.response_commitment, r.upstream_model_commitment, r.customer_id, r.signature_ed25519, r.node_receipt, r.status, r.billed,
		r.batch_id, r.created_at, r.seq AS group_first_seq, r.seq AS group_last_seq, r.issued_at, r.mac, r.price
	FROM receipt_rows r
	UNION ALL
	SELECT x.receipt_hash, u.seq, coalesce(u.issuer, g.shared[3]),
		coalesce(u.request_id, g.shared[4]), coalesce(u.job_id, g.shared[5]), coalesce(u.kind, g.shared[6]),
		coalesce(u.node_id, g.shared[7]), coalesce(u.node_class, g.shared[8]), coalesce(u.runtime_id, g.shared[9]),
		coalesce(u.runtime_kind, g.shared[10]), coalesce(u.model_id, g.shared[11]),
		coalesce(u.prompt_tokens, g.shared[12]::integer), coalesce(u.completion_tokens, g.shared[13]::integer),
		('epoch'::timestamptz + coalesce(u.started_ms, g.shared[14]::bigint) * interval '1 millisecond')::timestamp (3) with time zone,
		('epoch'::timestamptz + coalesce(u.completed_ms, g.shared[15]::bigint) * interval '1 millisecond')::timestamp (3) with time zone,
		NULL, NULL, NULL, NULL, coalesce(u.customer_id, g.shared[1]), coalesce(u.signature_ed25519, g.shared[2]), NULL,
		CASE WHEN g.billed THEN coalesce((SELECT CASE WHEN p.settlement_status = 'finalized' THEN 'finalized' ELSE 'batched' END
			FROM payout_rows p WHERE p.receipt_hash = x.receipt_hash AND p.batch_id IS NOT NULL), 'accepted') ELSE 'accepted' END,
		g.billed, CASE WHEN g.billed THEN (SELECT p.batch_id FROM payout_rows p WHERE p.receipt_hash = x.receipt_hash) END,
		g.created_at, g.first_seq, g.last_seq,
		('epoch'::timestamptz + (coalesce(u.completed_ms, g.shared[15]::bigint) + coalesce(u.issued_after_ms, g.shared[16]::integer))
			* interval '1 millisecond')::timestamp (3) with time zone, g.mac, coalesce(u.price, g.shared[17])
	-- Fetched once for a group: a part of what is stored elsewhere is fetched by itself, each time.
	FROM receipt_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(
		g.seq, g.customer_id, g.signature_ed25519, g.issuer, g.request_id, g.job_id, g.kind, g.node_id, g.node_class, g.runtime_id,
		g.runtime_kind, g.model_id, g.prompt_tokens, g.completion_tokens, g.started_ms, g.completed_ms, g.issued_after_ms, g.price
	) WITH ORDINALITY AS u (
		seq, customer_id, signature_ed25519, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
		prompt_tokens, completion_tokens, started_ms, completed_ms, issued_after_ms, price, place
	), LATERAL (SELECT '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex') AS receipt_hash) x;
--> statement-breakpoint
-- The constraint of `charge_groups`, as one call: the server reads the text of each constraint anew for every statement, which
-- was two fifths of what a group of eight costs. Every column has one element for each charge, every sum is that of its
-- column, no sum is negative, every entry has its number, and what a row is known by is in it.
CREATE OR REPLACE FUNCTION charge_group_adds_up(g charge_groups) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_whole boolean; v_charged numeric; v_shares numeric; v_fees numeric;
BEGIN
  IF g.rows < 1 OR octet_length(g.hashes) <> 32 * g.rows OR NOT g.rows = ALL (ARRAY[cardinality(g.debit_seq),
      cardinality(g.release_seq), cardinality(g.reservation_ids), cardinality(g.debit_ids), cardinality(g.release_ids),
      cardinality(g.payout_ids), cardinality(g.fee_ids), cardinality(g.node_ids), cardinality(g.kinds), cardinality(g.payees),
      cardinality(g.charged_wei), cardinality(g.share_wei), cardinality(g.fee_wei), cardinality(g.released_wei),
      cardinality(g.balance_after_wei), cardinality(g.reserved_after_wei)]) THEN
    RETURN false;
  END IF;
  -- Of charges under a lease, the entries of their reserves and when they were made.
  IF g.reserve_seq IS NOT NULL AND NOT coalesce(g.rows = ALL (ARRAY[cardinality(g.reserve_seq), cardinality(g.reserve_ids),
      cardinality(g.reserved_at_ms)]) AND array_position(g.reserve_seq, NULL) IS NULL AND array_position(g.reserve_ids, NULL) IS NULL,
      false) THEN
    RETURN false;
  END IF;
  -- Taken apart once: an element of an array of numbers is looked for from its beginning each time.
  SELECT bool_and(coalesce(u.charged > 0 AND u.share >= 0 AND u.fee >= 0 AND u.released >= 0 AND u.charged = u.share + u.fee
        AND u.reserved >= 0 AND u.reserved + u.released <= u.balance
        AND (u.released > 0) = (u.release_seq IS NOT NULL) AND (u.released > 0) = (u.release_id IS NOT NULL)
        AND (u.share > 0) = (u.payout_id IS NOT NULL) AND (u.fee > 0) = (u.fee_id IS NOT NULL)
        AND u.debit_id IS NOT NULL AND u.reservation_id IS NOT NULL AND u.node_id IS NOT NULL AND u.kind IS NOT NULL, false)),
      sum(u.charged), sum(u.share), sum(u.fee) INTO v_whole, v_charged, v_shares, v_fees
    FROM unnest(g.charged_wei, g.share_wei, g.fee_wei, g.released_wei, g.reserved_after_wei, g.balance_after_wei, g.release_seq,
        g.release_ids, g.payout_ids, g.fee_ids, g.debit_ids, g.reservation_ids, g.node_ids, g.kinds)
      AS u (charged, share, fee, released, reserved, balance, release_seq, release_id, payout_id, fee_id, debit_id, reservation_id,
        node_id, kind);
  IF NOT v_whole THEN RETURN false; END IF;
  RETURN v_charged = g.charged_total AND v_shares = g.shares_total AND v_fees = g.fees_total AND g.group_id = g.debit_ids[1]
    AND g.first_seq = coalesce(g.reserve_seq[1], g.debit_seq[1]) AND g.last_seq = greatest(g.debit_seq[g.rows], g.release_seq[g.rows])
    -- Who looks for the entries of a range of seq knows by this where to end. A statement that draws numbers for longer is cancelled.
    AND g.last_seq - g.first_seq < 1000000;
END $$;
--> statement-breakpoint
-- A list of texts, which comes as an array's text, or as texts with the unit separator (1F) between them and the record separator (1E) in place
-- of NULL: an array's text of 64 ids takes 29 µs to read, and this 4. Simple enough to become part of the statement that calls it.
CREATE OR REPLACE FUNCTION list_of(p_text text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_text LIKE '{%' THEN p_text::text[] ELSE string_to_array(p_text, E'\x1F', E'\x1E') END
$$;
--> statement-breakpoint
-- Charges what was reserved in memory under leases (docs/decisions/0051). The charges of a lease are one row of `charge_groups`, each with
-- the entry of its reserve beside its debit and its release, so that a customer's entries are those that it has without a lease. Their
-- receipts are one row of `receipt_groups` (docs/decisions/0056): p_grouped, NULL: all of them. What has more than such a group holds is p_receipts.
--
-- Charges stand in the order of their leases, and those in the order of their customers' ids: of each lease how many, and how much in all.
-- The constraint of `charge_groups` adds up again what the arrays say.
--
-- Either all of them are charged, and nothing is answered; or none is, and each is answered by its place from 1: `settled`:
-- it was charged before, by a call whose answer was lost; `unknown`: its lease has ended, and with it the reservation; `again`: nothing
-- stands against it, and it is to be sent without the others. A lease that has less than its charges is older than its gateway believes,
-- after a fail-over to a standby that was behind: it ends here.
--
-- p_sent: the groups in which any of the charges was sent before. p_call grows with each call of a process, and a lease takes none that is
-- not larger than its last: of a call that was given up its sender knows nothing, so it must not come after what was sent in its place.
--
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. The lock of the view comes
-- before, as in `ledger_charge`.
--
-- Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
-- p_nodes: one for each charge, or one for all.
CREATE OR REPLACE FUNCTION leased_charges_write(p_call bigint, p_sent text[], p_leases text[], p_customers text[], p_counts int[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[],
  p_charged numeric[], p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json, p_grouped bytea,
  p_shared text[], c text[], p_mac text)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_from int; v_to int := 0; v_balance numeric; v_reserved numeric; v_rows int;
  v_there text[]; v_short text[]; v_late text[]; v_done bigint[];
  v_nodes text[]; v_payees text[]; v_seq bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  SELECT array_agg(l.lease_id) FILTER (WHERE l.calls < p_call AND l.left_wei >= q.charged),
      array_agg(l.lease_id) FILTER (WHERE l.calls < p_call AND l.left_wei < q.charged),
      array_agg(l.lease_id) FILTER (WHERE l.calls >= p_call)
    INTO v_there, v_short, v_late
    FROM (SELECT l.lease_id, l.customer_id, l.left_wei, l.calls FROM money_leases l WHERE l.lease_id = ANY (p_leases)
      ORDER BY l.customer_id, l.lease_id FOR UPDATE) l
    JOIN unnest(p_leases, p_customers, p_charged_sums) AS q (lease, customer, charged) ON q.lease = l.lease_id AND q.customer = l.customer_id;
  IF cardinality(p_sent) > 0 THEN
    SELECT array_agg(q.ord) INTO v_done FROM charge_groups g CROSS JOIN LATERAL unnest(g.debit_ids) AS d (id)
      JOIN unnest(p_debits) WITH ORDINALITY AS q (id, ord) ON q.id = d.id WHERE g.group_id = ANY (p_sent);
  END IF;
  IF v_short IS NOT NULL THEN
    WITH l AS (DELETE FROM money_leases l WHERE l.lease_id = ANY (v_short) RETURNING l.customer_id, l.left_wei)
    UPDATE customers c SET leased_wei = c.leased_wei - s.wei
      FROM (SELECT l.customer_id, sum(l.left_wei) AS wei FROM l GROUP BY l.customer_id) s WHERE c.customer_id = s.customer_id;
  END IF;
  IF v_done IS NOT NULL OR NOT coalesce(p_leases <@ v_there, false) THEN
    RETURN QUERY SELECT (row_number() OVER (ORDER BY l.ord, n))::int, CASE WHEN row_number() OVER (ORDER BY l.ord, n) = ANY (v_done)
        THEN 'settled' WHEN l.lease = ANY (v_there) OR l.lease = ANY (v_late) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases, p_counts) WITH ORDINALITY AS l (lease, count, ord), generate_series(1, l.count) AS n;
    RETURN;
  END IF;
  IF (SELECT count(*) <> cardinality(p_debits) FROM (SELECT FROM unnest(p_debits) AS q GROUP BY q) d) THEN
    RAISE EXCEPTION 'a charge is there twice' USING ERRCODE = 'check_violation';
  END IF;
  v_now := clock_timestamp();
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  p_grouped := coalesce(p_grouped, p_hashes);
  v_rows := octet_length(p_grouped) / 32;
  IF v_rows > 0 THEN
    -- Before its numbers are drawn, as in `receipt_group_insert`.
    LOCK TABLE receipts IN ROW EXCLUSIVE MODE;
    v_seq := ARRAY(SELECT nextval('receipts_seq_seq') FROM generate_series(1, v_rows));
    INSERT INTO receipt_groups (last_seq, first_seq, rows, created_at, first_hash, seq, hashes, shared, customer_id, signature_ed25519,
        issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens,
        started_ms, completed_ms, issued_after_ms, price, mac, billed)
      VALUES (v_seq[v_rows], v_seq[1], v_rows, v_now, substring(p_grouped FOR 32), v_seq, p_grouped, p_shared, list_of(c[1]),
        list_of(c[2]), list_of(c[3]), list_of(c[4]), list_of(c[5]), list_of(c[6]), list_of(c[7]), list_of(c[8]), list_of(c[9]),
        list_of(c[10]), list_of(c[11]), c[12]::integer[], c[13]::integer[], c[14]::bigint[], c[15]::bigint[], c[16]::integer[],
        list_of(c[17]), p_mac, true);
  END IF;
  FOR i IN 1 .. cardinality(p_leases) LOOP
    v_from := v_to + 1;
    v_to := v_to + p_counts[i];
    UPDATE money_leases l SET left_wei = l.left_wei - p_charged_sums[i], calls = p_call,
        ends_at = greatest(l.ends_at, v_now + p_ttl_ms * interval '1 ms')
      WHERE l.lease_id = p_leases[i];
    UPDATE customers c SET balance_wei = c.balance_wei - p_charged_sums[i], leased_wei = c.leased_wei - p_charged_sums[i]
      WHERE c.customer_id = p_customers[i] RETURNING c.balance_wei + p_charged_sums[i], c.reserved_wei INTO v_balance, v_reserved;
    -- Usually all are of one node.
    IF cardinality(p_nodes) = 1 THEN
      v_nodes := array_fill(p_nodes[1], ARRAY[p_counts[i]]);
      v_payees := array_fill((SELECT n.payout_address FROM nodes n WHERE n.node_id = p_nodes[1]), ARRAY[p_counts[i]]);
    ELSE
      v_nodes := p_nodes[v_from:v_to];
      v_payees := ARRAY(SELECT n.payout_address FROM unnest(v_nodes) WITH ORDINALITY AS q (node, ord)
        LEFT JOIN nodes n ON n.node_id = q.node ORDER BY q.ord);
    END IF;
    SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release) INTO v_reserve_seq, v_debit_seq, v_release_seq FROM (
      SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
        CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release
      FROM unnest(p_released[v_from:v_to]) AS r (wei) OFFSET 0) s;
    INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
        reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
        released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
      VALUES (greatest(v_debit_seq[p_counts[i]], v_release_seq[p_counts[i]]), v_reserve_seq[1], p_debits[v_from], p_customers[i], p_counts[i],
        v_now, v_reserve_seq, v_debit_seq, v_release_seq, p_ids[v_from:v_to], p_reserves[v_from:v_to], p_debits[v_from:v_to],
        p_releases[v_from:v_to], p_payouts[v_from:v_to], p_fee_entries[v_from:v_to], v_nodes, p_kinds[v_from:v_to],
        v_payees,
        p_charged[v_from:v_to], p_shares[v_from:v_to], p_fees[v_from:v_to], p_released[v_from:v_to],
        -- In the order of the charges, which a window without one of its own keeps.
        ARRAY(SELECT v_balance - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged[v_from:v_to]) AS u (charged)),
        array_fill(v_reserved, ARRAY[p_counts[i]]), p_reserved_at[v_from:v_to],
        substring(p_hashes FROM 32 * v_from - 31 FOR 32 * p_counts[i]), p_charged_sums[i], p_share_sums[i], p_fee_sums[i]);
  END LOOP;
END $$;
--> statement-breakpoint
-- Leases more of a customer's money as an addition to a lease that is there, as `money_lease_take` does. Where it has ended it stays so: a
-- lease that came back could be charged by a call that was given up long ago.
CREATE OR REPLACE FUNCTION money_lease_add(p_lease text, p_customer text, p_wei numeric, p_ttl_ms bigint) RETURNS numeric
LANGUAGE plpgsql AS $$
DECLARE
  v_wei numeric;
BEGIN
  SELECT least(p_wei, div(c.balance_wei - c.reserved_wei - c.leased_wei, 2)) INTO v_wei FROM customers c
    WHERE c.customer_id = p_customer AND (c.unleased_until IS NULL OR c.unleased_until < clock_timestamp()) FOR UPDATE;
  IF v_wei IS NULL OR v_wei <= 0 THEN RETURN 0; END IF;
  UPDATE money_leases l SET left_wei = l.left_wei + v_wei, ends_at = clock_timestamp() + p_ttl_ms * interval '1 ms'
    WHERE l.lease_id = p_lease AND l.customer_id = p_customer;
  IF NOT FOUND THEN RETURN 0; END IF;
  UPDATE customers c SET leased_wei = c.leased_wei + v_wei WHERE c.customer_id = p_customer;
  RETURN v_wei;
END $$;
--> statement-breakpoint
-- Gateways of the version before read the receipts of charges as rows.
INSERT INTO receipt_versions SELECT 'grouped-charges', CASE WHEN EXISTS (SELECT 1 FROM receipt_rows)
	OR EXISTS (SELECT 1 FROM receipt_groups) THEN now() + interval '1 hour' ELSE 'epoch' END;
