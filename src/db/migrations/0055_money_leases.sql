-- As gateways of the version before take them, which charge meanwhile: the view with its tables first, and then customers.
DO $$ BEGIN
  IF to_regclass('ledger_entries') IS NOT NULL THEN LOCK TABLE ledger_entries IN ACCESS EXCLUSIVE MODE; END IF;
END $$;
--> statement-breakpoint
LOCK TABLE customers IN ACCESS EXCLUSIVE MODE;
--> statement-breakpoint
CREATE TABLE "money_lease_start" (
	"begins_at" timestamp (3) with time zone PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE "money_leases" (
	"lease_id" text PRIMARY KEY NOT NULL,
	"customer_id" text NOT NULL,
	"left_wei" numeric(78, 0) NOT NULL,
	"ends_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "money_lease_not_overspent" CHECK ("money_leases"."left_wei" >= 0)
);
--> statement-breakpoint
ALTER TABLE "customers" ADD COLUMN "leased_wei" numeric(78, 0) DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "customers" ADD COLUMN "unleased_until" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "money_leases" ADD CONSTRAINT "money_leases_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "money_leases_customer_id_index" ON "money_leases" USING btree ("customer_id");--> statement-breakpoint
ALTER TABLE "customers" ADD CONSTRAINT "customer_leased_within_balance" CHECK (0 <= "customers"."leased_wei" and "customers"."reserved_wei" + "customers"."leased_wei" <= "customers"."balance_wei");
--> statement-breakpoint
-- Of charges under a lease: the entries of their reserves, and when each was made, Unix ms. NULL: their reserves are rows.
ALTER TABLE charge_groups ADD COLUMN reserve_ids text[], ADD COLUMN reserve_seq bigint[], ADD COLUMN reserved_at_ms bigint[];
--> statement-breakpoint
ALTER TABLE charge_groups ALTER COLUMN reserve_ids SET STATISTICS 0, ALTER COLUMN reserve_ids SET STORAGE EXTERNAL;
--> statement-breakpoint
ALTER TABLE charge_groups ALTER COLUMN reserve_seq SET STATISTICS 0, ALTER COLUMN reserve_seq SET STORAGE EXTERNAL;
--> statement-breakpoint
ALTER TABLE charge_groups ALTER COLUMN reserved_at_ms SET STATISTICS 0, ALTER COLUMN reserved_at_ms SET STORAGE EXTERNAL;
--> statement-breakpoint
DROP TRIGGER charge_groups_append_only ON charge_groups;
--> statement-breakpoint
CREATE TRIGGER charge_groups_append_only BEFORE DELETE OR UPDATE OF last_seq, first_seq, group_id, customer_id, rows, created_at, charged_total, shares_total, fees_total, debit_seq, release_seq, reservation_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei, released_wei, balance_after_wei, reserved_after_wei, hashes, reserve_ids, reserve_seq, reserved_at_ms ON charge_groups FOR EACH ROW EXECUTE FUNCTION charge_group_is_kept();
--> statement-breakpoint
CREATE OR REPLACE VIEW ledger_entries AS
 SELECT l.entry_id,
    l.seq,
    l.customer_id,
    l.kind,
    l.amount_wei,
    l.balance_after_wei,
    l.reserved_after_wei,
    l.reservation_id,
    l.private_job_id,
    l.receipt_hash,
    l.reason,
    l.created_at,
    l.seq AS group_first_seq,
    l.seq AS group_last_seq
   FROM ledger_rows l
UNION ALL
 SELECT u.debit_id AS entry_id,
    u.seq,
    g.customer_id,
    'debit'::text AS kind,
    (u.charged)::numeric(78,0) AS amount_wei,
    (u.balance)::numeric(78,0) AS balance_after_wei,
    ((u.reserved + u.released))::numeric(78,0) AS reserved_after_wei,
    u.reservation_id,
    NULL::text AS private_job_id,
    ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
    NULL::text AS reason,
    g.created_at,
    g.first_seq AS group_first_seq,
    g.last_seq AS group_last_seq
   FROM charge_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.debit_ids, g.debit_seq, g.charged_wei, g.balance_after_wei, g.reserved_after_wei, g.released_wei, g.reservation_ids) WITH ORDINALITY u(debit_id, seq, charged, balance, reserved, released, reservation_id, place)
UNION ALL
 SELECT u.release_id AS entry_id,
    u.seq,
    g.customer_id,
    'release'::text AS kind,
    (u.released)::numeric(78,0) AS amount_wei,
    (u.balance)::numeric(78,0) AS balance_after_wei,
    (u.reserved)::numeric(78,0) AS reserved_after_wei,
    u.reservation_id,
    NULL::text AS private_job_id,
    ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
    NULL::text AS reason,
    g.created_at,
    g.first_seq AS group_first_seq,
    g.last_seq AS group_last_seq
   FROM charge_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.release_ids, g.release_seq, g.balance_after_wei, g.reserved_after_wei, g.released_wei, g.reservation_ids) WITH ORDINALITY u(release_id, seq, balance, reserved, released, reservation_id, place)
  WHERE (u.release_id IS NOT NULL)
UNION ALL
 SELECT u.reserve_id AS entry_id,
    u.seq,
    g.customer_id,
    'reserve'::text AS kind,
    ((u.charged + u.released))::numeric(78,0) AS amount_wei,
    ((u.balance + u.charged))::numeric(78,0) AS balance_after_wei,
    ((u.reserved + u.released + u.charged))::numeric(78,0) AS reserved_after_wei,
    u.reservation_id,
    NULL::text AS private_job_id,
    NULL::text AS receipt_hash,
    NULL::text AS reason,
    g.created_at,
    g.first_seq AS group_first_seq,
    g.last_seq AS group_last_seq
   FROM charge_groups g,
    LATERAL UNNEST(g.reserve_ids, g.reserve_seq, g.charged_wei, g.balance_after_wei, g.reserved_after_wei, g.released_wei, g.reservation_ids) u(reserve_id, seq, charged, balance, reserved, released, reservation_id)
  WHERE (g.reserve_seq IS NOT NULL);
--> statement-breakpoint
CREATE OR REPLACE VIEW ledger_lines AS
 SELECT l.entry_id,
    l.seq,
    l.customer_id,
    l.kind,
    l.amount_wei,
    l.balance_after_wei,
    l.reserved_after_wei,
    l.reservation_id,
    l.private_job_id,
    l.receipt_hash,
    l.reason,
    l.created_at,
    p.entry_id AS payout_id,
    p.node_id AS payout_node_id,
    p.kind AS payout_kind,
    p.amount_wei AS payout_wei,
    p.gross_wei AS payout_gross_wei,
    p.earned_payee,
    p.created_at AS payout_at,
    p.earned_held,
    f.entry_id AS fee_id,
    f.amount_wei AS fee_wei,
    f.created_at AS fee_at,
    l.seq AS group_first_seq,
    l.seq AS group_last_seq
   FROM ((ledger_rows l
     LEFT JOIN payout_rows p ON (((l.kind = 'debit'::text) AND (p.receipt_hash = l.receipt_hash))))
     LEFT JOIN fee_rows f ON (((f.created_at = p.created_at) AND (f.receipt_hash = p.receipt_hash))))
UNION ALL
 SELECT e.entry_id,
    e.seq,
    g.customer_id,
    e.kind,
    (e.amount)::numeric(78,0) AS amount_wei,
    (e.balance)::numeric(78,0) AS balance_after_wei,
    (e.reserved)::numeric(78,0) AS reserved_after_wei,
    u.reservation_id,
    NULL::text AS private_job_id,
    CASE
            WHEN (e.kind <> 'reserve'::text) THEN ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text))
            ELSE NULL::text
        END AS receipt_hash,
    NULL::text AS reason,
    g.created_at,
    e.payout_id,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN u.node_id
            ELSE NULL::text
        END AS payout_node_id,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN u.kind
            ELSE NULL::text
        END AS payout_kind,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN (u.share)::numeric(78,0)
            ELSE NULL::numeric
        END AS payout_wei,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN (u.charged)::numeric(78,0)
            ELSE NULL::numeric
        END AS payout_gross_wei,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN u.payee
            ELSE NULL::text
        END AS earned_payee,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN g.created_at
            ELSE NULL::timestamp with time zone
        END AS payout_at,
        CASE
            WHEN (e.payout_id IS NOT NULL) THEN false
            ELSE NULL::boolean
        END AS earned_held,
    e.fee_id,
        CASE
            WHEN (e.fee_id IS NOT NULL) THEN (u.fee)::numeric(78,0)
            ELSE NULL::numeric
        END AS fee_wei,
        CASE
            WHEN (e.fee_id IS NOT NULL) THEN g.created_at
            ELSE NULL::timestamp with time zone
        END AS fee_at,
    g.first_seq AS group_first_seq,
    g.last_seq AS group_last_seq
   FROM charge_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.debit_ids, g.debit_seq, g.release_ids, g.release_seq, g.payout_ids, g.node_ids, g.kinds, g.payees, g.charged_wei, g.share_wei, g.released_wei, g.balance_after_wei, g.reserved_after_wei, g.reservation_ids, g.fee_ids, g.fee_wei, g.reserve_ids, g.reserve_seq) WITH ORDINALITY u(debit_id, debit_seq, release_id, release_seq, payout_id, node_id, kind, payee, charged, share, released, balance, reserved, reservation_id, fee_id, fee, reserve_id, reserve_seq, place),
    LATERAL ( VALUES (u.debit_id,u.debit_seq,'debit'::text,u.charged,(u.reserved + u.released),u.balance,u.payout_id,
                CASE
                    WHEN (u.payout_id IS NOT NULL) THEN u.fee_id
                    ELSE NULL::text
                END), (u.release_id,u.release_seq,'release'::text,u.released,u.reserved,u.balance,NULL::text,NULL::text), (u.reserve_id,u.reserve_seq,'reserve'::text,(u.charged + u.released),(u.reserved + u.released + u.charged),(u.balance + u.charged),NULL::text,NULL::text)) e(entry_id, seq, kind, amount, reserved, balance, payout_id, fee_id)
  WHERE (e.entry_id IS NOT NULL);
--> statement-breakpoint
-- What was reserved for each charge, and when.
CREATE VIEW charge_quotes AS
 SELECT o.receipt_hash, o.amount_wei, o.created_at FROM reservations o WHERE o.receipt_hash IS NOT NULL
UNION ALL
 SELECT '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), (u.charged + u.released)::numeric(78,0),
    ('epoch'::timestamptz + u.reserved_at_ms * interval '1 millisecond')::timestamp (3) with time zone
   FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h,
    LATERAL unnest(g.charged_wei, g.released_wei, g.reserved_at_ms) WITH ORDINALITY u(charged, released, reserved_at_ms, place)
  WHERE g.reserve_seq IS NOT NULL;
--> statement-breakpoint
-- The constraint of `charge_groups`, as one call: the server reads the text of each constraint anew for every statement, which
-- was two fifths of what a group of eight costs. Every column has one element for each charge, every sum is that of its
-- column, no sum is negative, every entry has its number, and what a row is known by is in it.
CREATE OR REPLACE FUNCTION charge_group_adds_up(g charge_groups) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_charged numeric := 0; v_shares numeric := 0; v_fees numeric := 0;
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
  FOR i IN 1 .. g.rows LOOP
    IF g.charged_wei[i] <= 0 OR g.share_wei[i] < 0 OR g.fee_wei[i] < 0 OR g.released_wei[i] < 0
        OR g.charged_wei[i] <> g.share_wei[i] + g.fee_wei[i] OR g.reserved_after_wei[i] < 0
        OR g.reserved_after_wei[i] + g.released_wei[i] > g.balance_after_wei[i]
        OR (g.released_wei[i] > 0) <> (g.release_seq[i] IS NOT NULL) OR (g.released_wei[i] > 0) <> (g.release_ids[i] IS NOT NULL)
        OR (g.share_wei[i] > 0) <> (g.payout_ids[i] IS NOT NULL) OR (g.fee_wei[i] > 0) <> (g.fee_ids[i] IS NOT NULL)
        OR g.debit_ids[i] IS NULL OR g.reservation_ids[i] IS NULL OR g.node_ids[i] IS NULL OR g.kinds[i] IS NULL THEN
      RETURN false;
    END IF;
    v_charged := v_charged + g.charged_wei[i]; v_shares := v_shares + g.share_wei[i]; v_fees := v_fees + g.fee_wei[i];
  END LOOP;
  RETURN v_charged = g.charged_total AND v_shares = g.shares_total AND v_fees = g.fees_total AND g.group_id = g.debit_ids[1]
    AND g.first_seq = coalesce(g.reserve_seq[1], g.debit_seq[1]) AND g.last_seq = greatest(g.debit_seq[g.rows], g.release_seq[g.rows])
    -- Who looks for the entries of a range of seq knows by this where to end. A statement that draws numbers for longer is cancelled.
    AND g.last_seq - g.first_seq < 1000000;
END $$;
--> statement-breakpoint
-- Charges what was reserved in memory under leases (docs/decisions/0051). The charges of a lease are one row of `charge_groups`, each with
-- the entry of its reserve beside its debit and its release, so that a customer's entries are those that it has without a lease.
--
-- Charges stand in the order of their leases, and those in the order of their customers' ids: of each lease how many, and how much in all.
-- The constraint of `charge_groups` adds up again what the arrays say.
--
-- Either all of them are charged, and nothing is answered; or none is, and each is answered by its place from 1: `settled`:
-- it was charged before, by a call whose answer was lost; `unknown`: its lease has ended, and with it the reservation; `again`: nothing
-- stands against it, and it is to be sent without the others. A lease that has less than its charges is older than its gateway believes,
-- after a fail-over to a standby that was behind: it ends here.
--
-- Where a billed receipt is, its charge is: both are of one commit, and whoever has the customer's row sees both.
--
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. The lock of the view comes
-- before, as in `ledger_charge`.
--
-- Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
CREATE OR REPLACE FUNCTION ledger_charge_leased(p_leases text[], p_customers text[], p_counts int[], p_charged_sums numeric[],
  p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[], p_charged numeric[], p_shares numeric[],
  p_fees numeric[], p_released numeric[], p_hashes text[], p_nodes text[], p_kinds text[], p_reserves text[], p_debits text[],
  p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_hashes bytea; v_from int; v_to int := 0; v_balance numeric; v_reserved numeric;
  v_there text[]; v_short text[]; v_done bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  SELECT array_agg(l.lease_id) FILTER (WHERE l.left_wei >= q.charged), array_agg(l.lease_id) FILTER (WHERE l.left_wei < q.charged)
    INTO v_there, v_short
    FROM (SELECT l.lease_id, l.customer_id, l.left_wei FROM money_leases l WHERE l.lease_id = ANY (p_leases)
      ORDER BY l.customer_id, l.lease_id FOR UPDATE) l
    JOIN unnest(p_leases, p_customers, p_charged_sums) AS q (lease, customer, charged) ON q.lease = l.lease_id AND q.customer = l.customer_id;
  -- By their keys, whatever size the table had when the plan was made: hence the OFFSET.
  SELECT array_agg(q.ord) INTO v_done FROM unnest(p_hashes) WITH ORDINALITY AS q (hash, ord)
    CROSS JOIN LATERAL (SELECT r.billed FROM receipt_rows r WHERE r.receipt_hash = q.hash OFFSET 0) r WHERE r.billed;
  IF v_short IS NOT NULL THEN
    WITH l AS (DELETE FROM money_leases l WHERE l.lease_id = ANY (v_short) RETURNING l.customer_id, l.left_wei)
    UPDATE customers c SET leased_wei = c.leased_wei - s.wei
      FROM (SELECT l.customer_id, sum(l.left_wei) AS wei FROM l GROUP BY l.customer_id) s WHERE c.customer_id = s.customer_id;
  END IF;
  IF v_done IS NOT NULL OR NOT coalesce(p_leases <@ v_there, false) THEN
    RETURN QUERY SELECT (row_number() OVER (ORDER BY l.ord, n))::int, CASE WHEN row_number() OVER (ORDER BY l.ord, n) = ANY (v_done)
        THEN 'settled' WHEN l.lease = ANY (v_there) THEN 'again' ELSE 'unknown' END
      FROM unnest(p_leases, p_counts) WITH ORDINALITY AS l (lease, count, ord), generate_series(1, l.count) AS n;
    RETURN;
  END IF;
  IF (SELECT count(DISTINCT q) <> cardinality(p_hashes) FROM unnest(p_hashes) AS q) THEN
    RAISE EXCEPTION 'a receipt is there twice' USING ERRCODE = 'check_violation';
  END IF;
  PERFORM receipts_insert(p_receipts);
  v_now := clock_timestamp();
  FOR i IN 1 .. cardinality(p_leases) LOOP
    v_from := v_to + 1;
    v_to := v_to + p_counts[i];
    UPDATE money_leases l SET left_wei = l.left_wei - p_charged_sums[i], ends_at = greatest(l.ends_at, v_now + p_ttl_ms * interval '1 ms')
      WHERE l.lease_id = p_leases[i];
    UPDATE customers c SET balance_wei = c.balance_wei - p_charged_sums[i], leased_wei = c.leased_wei - p_charged_sums[i]
      WHERE c.customer_id = p_customers[i] RETURNING c.balance_wei + p_charged_sums[i], c.reserved_wei INTO v_balance, v_reserved;
    SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release) INTO v_reserve_seq, v_debit_seq, v_release_seq FROM (
      SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
        CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release
      FROM unnest(p_released[v_from:v_to]) AS r (wei) OFFSET 0) s;
    v_hashes := decode(replace(array_to_string(p_hashes[v_from:v_to], ''), '0x', ''), 'hex');
    INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
        reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
        released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
      VALUES (greatest(v_debit_seq[p_counts[i]], v_release_seq[p_counts[i]]), v_reserve_seq[1], p_debits[v_from], p_customers[i], p_counts[i],
        v_now, v_reserve_seq, v_debit_seq, v_release_seq, p_ids[v_from:v_to], p_reserves[v_from:v_to], p_debits[v_from:v_to],
        p_releases[v_from:v_to], p_payouts[v_from:v_to], p_fee_entries[v_from:v_to], p_nodes[v_from:v_to], p_kinds[v_from:v_to],
        (SELECT array_agg(n.payout_address ORDER BY q.ord) FROM unnest(p_nodes[v_from:v_to]) WITH ORDINALITY AS q (node, ord)
          LEFT JOIN nodes n ON n.node_id = q.node),
        p_charged[v_from:v_to], p_shares[v_from:v_to], p_fees[v_from:v_to], p_released[v_from:v_to],
        (SELECT array_agg(v_balance - q.so_far ORDER BY q.ord) FROM (
          SELECT u.ord, sum(u.charged) OVER (ORDER BY u.ord ROWS UNBOUNDED PRECEDING) AS so_far
          FROM unnest(p_charged[v_from:v_to]) WITH ORDINALITY AS u (charged, ord)) q),
        array_fill(v_reserved, ARRAY[p_counts[i]]), p_reserved_at[v_from:v_to], v_hashes, p_charged_sums[i], p_share_sums[i], p_fee_sums[i]);
  END LOOP;
END $$;
--> statement-breakpoint
-- Any number of requests at once: one commit for all that waited (decisions §13). Customers are locked in the order of
-- their ids, so that two gateways never wait for each other, and only then is looked at what is changed: in a function
-- every statement sees what was committed before it, in one statement nothing after its start.
--
-- Requests are met in the order given, each out of what the ones before it left. Saying one again that was met changes
-- nothing. Answers with what is not simply reserved, by its place from 1: `insufficient`, `conflict` (the id was used for
-- something else, or is closed), `no_customer`.
--
-- The lock of the view is for the log of a gateway of the version before, as in `ledger_charge`.
--
-- What is leased (docs/decisions/0051) is no more there than what is reserved.
--
-- The usual group is of one customer who has enough: then the one statement that sets the money aside also locks and looks.
CREATE OR REPLACE FUNCTION ledger_reserve(p_ids text[], p_customers text[], p_amounts numeric[], p_entries text[], p_jobs text[],
  p_ttl_ms bigint)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  r record; v_now timestamptz; v_customer text; v_balance numeric; v_reserved numeric; v_refused int[] := '{}';
  v_answer text;
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  IF p_customers[1] = ALL (p_customers) THEN
    UPDATE customers c SET reserved_wei = c.reserved_wei + s.amount
      FROM (SELECT sum(q.amount) AS amount FROM unnest(p_amounts) AS q (amount)) s
      WHERE c.customer_id = p_customers[1] AND c.reserved_wei + c.leased_wei + s.amount <= c.balance_wei
      RETURNING c.balance_wei, c.reserved_wei - s.amount, clock_timestamp() INTO v_balance, v_reserved, v_now;
    IF FOUND THEN
      IF NOT EXISTS (SELECT 1 FROM reservations o WHERE o.reservation_id = ANY (p_ids)) THEN
        INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
          SELECT q.id, p_customers[1], q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms'
          FROM unnest(p_ids, p_amounts, p_jobs) AS q (id, amount, job);
        INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
            reservation_id, private_job_id, created_at)
          SELECT q.entry, p_customers[1], 'reserve', q.amount, v_balance, v_reserved + sum(q.amount) OVER (ORDER BY q.ord),
            q.id, q.job, v_now
          FROM unnest(p_ids, p_amounts, p_entries, p_jobs) WITH ORDINALITY AS q (id, amount, entry, job, ord)
          ORDER BY q.ord;
        RETURN;
      END IF;
      UPDATE customers c SET reserved_wei = v_reserved WHERE c.customer_id = p_customers[1];
    END IF;
  END IF;
  PERFORM 1 FROM customers c WHERE c.customer_id = ANY (p_customers) ORDER BY c.customer_id FOR UPDATE;
  v_now := clock_timestamp();
  IF EXISTS (SELECT 1 FROM reservations o WHERE o.reservation_id = ANY (p_ids)) OR EXISTS (
      SELECT 1 FROM (SELECT q.customer, sum(q.amount) AS amount FROM unnest(p_customers, p_amounts) AS q (customer, amount)
        GROUP BY q.customer) s
      LEFT JOIN customers c ON c.customer_id = s.customer
      WHERE c.customer_id IS NULL OR c.reserved_wei + c.leased_wei + s.amount > c.balance_wei) THEN
    FOR r IN
      SELECT q.ord::int AS ord, q.amount, q.customer, c.customer_id IS NOT NULL AS known, c.balance_wei, c.leased_wei, c.reserved_wei,
        o.reservation_id IS NOT NULL AS seen,
        o.status = 'open' AND o.customer_id = q.customer AND o.amount_wei = q.amount AS same
      FROM unnest(p_ids, p_customers, p_amounts) WITH ORDINALITY AS q (id, customer, amount, ord)
      LEFT JOIN customers c ON c.customer_id = q.customer
      LEFT JOIN reservations o ON o.reservation_id = q.id
      ORDER BY q.customer, q.ord
    LOOP
      IF r.known AND r.customer IS DISTINCT FROM v_customer THEN
        v_customer := r.customer; v_reserved := r.reserved_wei;
      END IF;
      v_answer := CASE WHEN NOT r.known THEN 'no_customer' WHEN r.seen AND r.same THEN 'reserved'
        WHEN r.seen THEN 'conflict' WHEN v_reserved + r.leased_wei + r.amount > r.balance_wei THEN 'insufficient' END;
      IF v_answer IS NULL THEN v_reserved := v_reserved + r.amount; CONTINUE; END IF;
      v_refused := v_refused || r.ord;
      IF v_answer <> 'reserved' THEN place := r.ord; outcome := v_answer; RETURN NEXT; END IF;
    END LOOP;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT * FROM unnest(p_ids, p_customers, p_amounts, p_entries, p_jobs)
      WITH ORDINALITY AS u (id, customer, amount, entry, job, ord)
    WHERE NOT u.ord = ANY (v_refused)
  ), c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei + s.amount
      FROM (SELECT q.customer, sum(q.amount) AS amount FROM q GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei AS balance, c.reserved_wei - s.amount AS reserved
  ), o AS (
    INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
      SELECT q.id, q.customer, q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms' FROM q
  )
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, created_at)
    SELECT q.entry, q.customer, 'reserve', q.amount, c.balance,
      c.reserved + sum(q.amount) OVER (PARTITION BY q.customer ORDER BY q.ord), q.id, q.job, v_now
    FROM q JOIN c ON c.customer_id = q.customer
    ORDER BY q.ord;
END $$;
--> statement-breakpoint
-- Makes ordinary reservations of what a process has reserved in memory under its lease, and ends the lease with p_end. From then on
-- they are like those that `ledger_reserve` makes. Sent again, it changes nothing. Answers whether the lease was there, with enough for them:
-- one with less is older than its gateway believes, after a fail-over to a standby that was behind, and ends.
CREATE OR REPLACE FUNCTION money_lease_reserve(p_lease text, p_customer text, p_end boolean, p_ids text[], p_amounts numeric[],
  p_entries text[], p_ttl_ms bigint) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_balance numeric; v_reserved numeric; v_left numeric; v_sum numeric; v_now timestamptz;
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
  SELECT c.balance_wei, c.reserved_wei INTO v_balance, v_reserved FROM customers c WHERE c.customer_id = p_customer FOR UPDATE;
  SELECT l.left_wei INTO v_left FROM money_leases l WHERE l.lease_id = p_lease AND l.customer_id = p_customer FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  SELECT coalesce(sum(q.amount), 0) INTO v_sum FROM unnest(p_ids, p_amounts) AS q (id, amount)
    WHERE (SELECT true FROM reservations o WHERE o.reservation_id = q.id) IS NULL;
  v_now := clock_timestamp();
  IF v_sum > v_left THEN
    DELETE FROM money_leases l WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left WHERE c.customer_id = p_customer;
    RETURN false;
  END IF;
  IF p_end THEN
    DELETE FROM money_leases l WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left, reserved_wei = c.reserved_wei + v_sum WHERE c.customer_id = p_customer;
  ELSE
    UPDATE money_leases l SET left_wei = l.left_wei - v_sum WHERE l.lease_id = p_lease;
    UPDATE customers c SET leased_wei = c.leased_wei - v_sum, reserved_wei = c.reserved_wei + v_sum WHERE c.customer_id = p_customer;
  END IF;
  WITH q AS MATERIALIZED (
    SELECT u.id, u.amount, u.entry, u.ord FROM unnest(p_ids, p_amounts, p_entries) WITH ORDINALITY AS u (id, amount, entry, ord)
    WHERE (SELECT true FROM reservations o WHERE o.reservation_id = u.id) IS NULL
  ), o AS (
    INSERT INTO reservations (reservation_id, customer_id, amount_wei, created_at, expires_at)
      SELECT q.id, p_customer, q.amount, v_now, v_now + p_ttl_ms * interval '1 ms' FROM q
  )
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id, created_at)
    SELECT q.entry, p_customer, 'reserve', q.amount, v_balance, v_reserved + sum(q.amount) OVER (ORDER BY q.ord), q.id, v_now
    FROM q ORDER BY q.ord;
  RETURN true;
END $$;
--> statement-breakpoint
-- Leases more of a customer's money to one process of a gateway, as an addition to its lease of this id or as a new one
-- (docs/decisions/0051): at most half of what nobody has reserved or leased. Answers how much; 0: none, because there is too little,
-- because somebody has just asked what is reserved, or because money is not leased yet.
CREATE OR REPLACE FUNCTION money_lease_take(p_lease text, p_customer text, p_wei numeric, p_ttl_ms bigint) RETURNS numeric
LANGUAGE plpgsql AS $$
DECLARE
  v_wei numeric; v_ends_at timestamptz;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM money_lease_start s WHERE s.begins_at <= clock_timestamp()) THEN RETURN 0; END IF;
  SELECT least(p_wei, div(c.balance_wei - c.reserved_wei - c.leased_wei, 2)) INTO v_wei FROM customers c
    WHERE c.customer_id = p_customer AND (c.unleased_until IS NULL OR c.unleased_until < clock_timestamp()) FOR UPDATE;
  IF v_wei IS NULL OR v_wei <= 0 THEN RETURN 0; END IF;
  v_ends_at := clock_timestamp() + p_ttl_ms * interval '1 ms';
  UPDATE customers c SET leased_wei = c.leased_wei + v_wei WHERE c.customer_id = p_customer;
  INSERT INTO money_leases AS l (lease_id, customer_id, left_wei, ends_at) VALUES (p_lease, p_customer, v_wei, v_ends_at)
    ON CONFLICT (lease_id) DO UPDATE SET left_wei = l.left_wei + v_wei, ends_at = v_ends_at;
  RETURN v_wei;
END $$;
--> statement-breakpoint
-- Ends leases that nobody has renewed, of one customer or (NULL) of any: their money is free again. Answers their number.
-- Customers are locked in the order of their ids, and then leases, as by whoever else touches both.
CREATE OR REPLACE FUNCTION money_leases_end(p_customer text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_customer text; v_left numeric; v_count int; v_ended int := 0;
BEGIN
  FOR v_customer IN
    SELECT DISTINCT l.customer_id FROM money_leases l
    WHERE l.ends_at < clock_timestamp() AND (p_customer IS NULL OR l.customer_id = p_customer) ORDER BY l.customer_id
  LOOP
    PERFORM 1 FROM customers c WHERE c.customer_id = v_customer FOR UPDATE;
    WITH l AS (
      DELETE FROM money_leases l WHERE l.customer_id = v_customer AND l.ends_at < clock_timestamp() RETURNING l.left_wei
    )
    SELECT count(*), sum(l.left_wei) INTO v_count, v_left FROM l;
    IF v_count = 0 THEN CONTINUE; END IF;
    UPDATE customers c SET leased_wei = c.leased_wei - v_left WHERE c.customer_id = v_customer;
    v_ended := v_ended + v_count;
  END LOOP;
  RETURN v_ended;
END $$;
--> statement-breakpoint
-- Asks all who lease money of a customer to end their leases, and lets no lease begin for a while, so that what the row says is
-- reserved is all that is. Answers how many leases there still are.
CREATE OR REPLACE FUNCTION money_leases_recall(p_customer text, p_pause_ms bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_count int;
BEGIN
  PERFORM money_leases_end(p_customer);
  SELECT count(*) INTO v_count FROM money_leases l WHERE l.customer_id = p_customer;
  IF v_count = 0 THEN RETURN 0; END IF;
  UPDATE customers c SET unleased_until = clock_timestamp() + p_pause_ms * interval '1 ms' WHERE c.customer_id = p_customer;
  PERFORM pg_notify('penstock_money', p_customer);
  RETURN v_count;
END $$;
--> statement-breakpoint
-- Gateways of the version before count nothing leased in what is reserved, and may run beside for an hour.
INSERT INTO money_lease_start SELECT CASE WHEN EXISTS (SELECT 1 FROM ledger_entries) THEN now() + interval '1 hour' ELSE 'epoch' END;
