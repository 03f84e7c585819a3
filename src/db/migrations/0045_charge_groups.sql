-- Charges in groups (docs/decisions/0035). What `ledger_entries`, `payouts` and `protocol_fees` were are `ledger_rows`, `payout_rows` and
-- `fee_rows`; charges that were committed together are a row of `charge_groups`, and the three old names are views of both. In this order, in
-- which a charge of the version before takes the tables.
ALTER TABLE payouts RENAME TO payout_rows;
--> statement-breakpoint
ALTER TABLE protocol_fees RENAME TO fee_rows;
--> statement-breakpoint
ALTER TABLE ledger_entries RENAME TO ledger_rows;
--> statement-breakpoint
ALTER TABLE ledger_rows RENAME CONSTRAINT ledger_entries_customer_id_customers_customer_id_fk TO ledger_rows_customer_id_customers_customer_id_fk;
--> statement-breakpoint
-- Charges of one customer that one commit wrote, as one row: an array for each column, one element for each charge. A charge is its debit,
-- and its release where the reserve was more; its share and its fee are NULL where there is none. `balance_after_wei` is that after the debit,
-- `reserved_after_wei` that after the release. `hashes` has the receipts' hashes, 32 bytes each. A group is known by the id of its first debit.
--
-- Nothing of it changes but `shares_moved`: its shares are rows of `payout_rows` by now, all of them.
CREATE TABLE charge_groups (
	last_seq bigint PRIMARY KEY NOT NULL,
	first_seq bigint NOT NULL,
	group_id text NOT NULL UNIQUE,
	customer_id text NOT NULL REFERENCES customers,
	rows integer NOT NULL,
	created_at timestamp (3) with time zone NOT NULL,
	shares_moved boolean DEFAULT false NOT NULL,
	charged_total numeric(78, 0) NOT NULL,
	shares_total numeric(78, 0) NOT NULL,
	fees_total numeric(78, 0) NOT NULL,
	debit_seq bigint[] NOT NULL,
	release_seq bigint[] NOT NULL,
	reservation_ids text[] NOT NULL,
	debit_ids text[] NOT NULL,
	release_ids text[] NOT NULL,
	payout_ids text[] NOT NULL,
	fee_ids text[] NOT NULL,
	node_ids text[] NOT NULL,
	kinds text[] NOT NULL,
	payees text[] NOT NULL,
	charged_wei numeric[] NOT NULL,
	share_wei numeric[] NOT NULL,
	fee_wei numeric[] NOT NULL,
	released_wei numeric[] NOT NULL,
	balance_after_wei numeric[] NOT NULL,
	reserved_after_wei numeric[] NOT NULL,
	hashes bytea NOT NULL,
	CONSTRAINT charge_groups_split CHECK (charged_total = shares_total + fees_total)
)
-- A group of a few charges stays in one piece.
WITH (toast_tuple_target = 8160);
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
    AND g.first_seq = g.debit_seq[1] AND g.last_seq = greatest(g.debit_seq[g.rows], g.release_seq[g.rows])
    -- Who looks for the entries of a range of seq knows by this where to end. A statement that draws numbers for longer is cancelled.
    AND g.last_seq - g.first_seq < 1000000;
END $$;
--> statement-breakpoint
ALTER TABLE charge_groups ADD CONSTRAINT charge_groups_whole CHECK (charge_group_adds_up(charge_groups));
--> statement-breakpoint
CREATE INDEX charge_groups_customer_index ON charge_groups (customer_id, last_seq);
--> statement-breakpoint
CREATE INDEX charge_groups_created_index ON charge_groups (created_at);
--> statement-breakpoint
CREATE INDEX charge_groups_unmoved_index ON charge_groups (last_seq) WHERE NOT shares_moved;
--> statement-breakpoint
-- Ids and hashes do not shrink, and nobody filters by what is in these arrays.
ALTER TABLE charge_groups
	ALTER COLUMN debit_seq SET STORAGE EXTERNAL,
	ALTER COLUMN release_seq SET STORAGE EXTERNAL,
	ALTER COLUMN reservation_ids SET STORAGE EXTERNAL,
	ALTER COLUMN debit_ids SET STORAGE EXTERNAL,
	ALTER COLUMN release_ids SET STORAGE EXTERNAL,
	ALTER COLUMN payout_ids SET STORAGE EXTERNAL,
	ALTER COLUMN fee_ids SET STORAGE EXTERNAL,
	ALTER COLUMN node_ids SET STORAGE EXTERNAL,
	ALTER COLUMN kinds SET STORAGE EXTERNAL,
	ALTER COLUMN payees SET STORAGE EXTERNAL,
	ALTER COLUMN charged_wei SET STORAGE EXTERNAL,
	ALTER COLUMN share_wei SET STORAGE EXTERNAL,
	ALTER COLUMN fee_wei SET STORAGE EXTERNAL,
	ALTER COLUMN released_wei SET STORAGE EXTERNAL,
	ALTER COLUMN balance_after_wei SET STORAGE EXTERNAL,
	ALTER COLUMN reserved_after_wei SET STORAGE EXTERNAL,
	ALTER COLUMN hashes SET STORAGE EXTERNAL,
	ALTER COLUMN debit_seq SET STATISTICS 0,
	ALTER COLUMN release_seq SET STATISTICS 0,
	ALTER COLUMN reservation_ids SET STATISTICS 0,
	ALTER COLUMN debit_ids SET STATISTICS 0,
	ALTER COLUMN release_ids SET STATISTICS 0,
	ALTER COLUMN payout_ids SET STATISTICS 0,
	ALTER COLUMN fee_ids SET STATISTICS 0,
	ALTER COLUMN node_ids SET STATISTICS 0,
	ALTER COLUMN kinds SET STATISTICS 0,
	ALTER COLUMN payees SET STATISTICS 0,
	ALTER COLUMN charged_wei SET STATISTICS 0,
	ALTER COLUMN share_wei SET STATISTICS 0,
	ALTER COLUMN fee_wei SET STATISTICS 0,
	ALTER COLUMN released_wei SET STATISTICS 0,
	ALTER COLUMN balance_after_wei SET STATISTICS 0,
	ALTER COLUMN reserved_after_wei SET STATISTICS 0,
	ALTER COLUMN hashes SET STATISTICS 0;
--> statement-breakpoint
-- Charges are never changed and never removed. Only where their shares are, in the group or as rows, is said by it.
CREATE OR REPLACE FUNCTION charge_group_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
--> statement-breakpoint
CREATE TRIGGER charge_groups_append_only BEFORE DELETE OR UPDATE OF last_seq, first_seq, group_id, customer_id, rows, created_at, charged_total, shares_total, fees_total, debit_seq, release_seq, reservation_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei, released_wei, balance_after_wei, reserved_after_wei, hashes
	ON charge_groups FOR EACH ROW EXECUTE FUNCTION charge_group_is_kept();
--> statement-breakpoint
CREATE TRIGGER charge_groups_moved_once BEFORE UPDATE OF shares_moved ON charge_groups FOR EACH ROW
	WHEN (OLD.shares_moved OR NOT NEW.shares_moved) EXECUTE FUNCTION charge_group_is_kept();
--> statement-breakpoint
CREATE TRIGGER charge_groups_no_truncate BEFORE TRUNCATE ON charge_groups FOR EACH STATEMENT EXECUTE FUNCTION charge_group_is_kept();
--> statement-breakpoint
-- A row for each entry, with the ends of its group, so that a question for a range of seq can leave groups out.
CREATE VIEW ledger_entries AS
	SELECT l.entry_id, l.seq, l.customer_id, l.kind, l.amount_wei, l.balance_after_wei, l.reserved_after_wei, l.reservation_id,
		l.private_job_id, l.receipt_hash, l.reason, l.created_at, l.seq AS group_first_seq, l.seq AS group_last_seq
	FROM ledger_rows l
	UNION ALL
	SELECT u.debit_id, u.seq, g.customer_id, 'debit', u.charged::numeric(78, 0), u.balance::numeric(78, 0),
		(u.reserved + u.released)::numeric(78, 0), u.reservation_id, NULL,
		'0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), NULL, g.created_at, g.first_seq, g.last_seq
	-- Fetched once for a group: a part of what is stored elsewhere is fetched by itself, each time.
	FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(g.debit_ids, g.debit_seq, g.charged_wei,
		g.balance_after_wei, g.reserved_after_wei, g.released_wei, g.reservation_ids)
		WITH ORDINALITY AS u (debit_id, seq, charged, balance, reserved, released, reservation_id, place)
	UNION ALL
	SELECT u.release_id, u.seq, g.customer_id, 'release', u.released::numeric(78, 0), u.balance::numeric(78, 0), u.reserved::numeric(78, 0),
		u.reservation_id, NULL, '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), NULL, g.created_at,
		g.first_seq, g.last_seq
	FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(g.release_ids, g.release_seq,
		g.balance_after_wei, g.reserved_after_wei, g.released_wei, g.reservation_ids)
		WITH ORDINALITY AS u (release_id, seq, balance, reserved, released, reservation_id, place)
	WHERE u.release_id IS NOT NULL;
--> statement-breakpoint
-- The shares of all groups, also of those that are rows by now.
CREATE VIEW charge_shares AS
	SELECT u.payout_id AS entry_id, u.node_id, '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex') AS receipt_hash,
		u.kind, u.share::numeric(78, 0) AS amount_wei, u.charged::numeric(78, 0) AS gross_wei, u.payee AS earned_payee, g.created_at,
		g.shares_moved, g.last_seq AS group_last_seq
	FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(g.payout_ids, g.node_ids, g.kinds, g.share_wei,
		g.charged_wei, g.payees) WITH ORDINALITY AS u (payout_id, node_id, kind, share, charged, payee, place)
	WHERE u.payout_id IS NOT NULL;
--> statement-breakpoint
-- A row for each share; `group_last_seq`: the group that has it still.
CREATE VIEW payouts AS
	SELECT p.entry_id, p.node_id, p.receipt_hash, p.kind, p.private_job_id, p.amount_wei, p.gross_wei, p.held, p.settlement_status,
		p.batch_id, p.earned_payee, p.payee, p.settled_at, p.created_at, p.updated_at, p.earned_held, NULL::bigint AS group_last_seq
	FROM payout_rows p
	UNION ALL
	SELECT s.entry_id, s.node_id, s.receipt_hash, s.kind, NULL, s.amount_wei, s.gross_wei, false, 'pending', NULL, s.earned_payee,
		s.earned_payee, NULL::timestamp (3) with time zone, s.created_at, s.created_at, false, s.group_last_seq
	FROM charge_shares s WHERE NOT s.shares_moved;
--> statement-breakpoint
CREATE VIEW protocol_fees AS
	SELECT f.entry_id, f.receipt_hash, f.private_job_id, f.amount_wei, f.status, f.created_at FROM fee_rows f
	UNION ALL
	SELECT u.fee_id, '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), NULL, u.fee::numeric(78, 0), 'earned',
		g.created_at
	FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(g.fee_ids, g.fee_wei)
		WITH ORDINALITY AS u (fee_id, fee, place)
	WHERE u.fee_id IS NOT NULL;
--> statement-breakpoint
-- What the log takes of each entry (decisions §31): of a debit with the payout that was earned by it.
CREATE VIEW ledger_lines AS
	SELECT l.entry_id, l.seq, l.customer_id, l.kind, l.amount_wei, l.balance_after_wei, l.reserved_after_wei, l.reservation_id,
		l.private_job_id, l.receipt_hash, l.reason, l.created_at, p.entry_id AS payout_id, p.node_id AS payout_node_id,
		p.kind AS payout_kind, p.amount_wei AS payout_wei, p.gross_wei AS payout_gross_wei, p.earned_payee, p.created_at AS payout_at,
		p.earned_held, f.entry_id AS fee_id, f.amount_wei AS fee_wei, f.created_at AS fee_at, l.seq AS group_first_seq, l.seq AS group_last_seq
	FROM ledger_rows l LEFT JOIN payout_rows p ON l.kind = 'debit' AND p.receipt_hash = l.receipt_hash
		LEFT JOIN fee_rows f ON f.created_at = p.created_at AND f.receipt_hash = p.receipt_hash
	UNION ALL
	SELECT e.entry_id, e.seq, g.customer_id, e.kind, e.amount::numeric(78, 0), u.balance::numeric(78, 0), e.reserved::numeric(78, 0),
		u.reservation_id, NULL, '0x' || encode(substring(h.hashes FROM 32 * u.place::integer - 31 FOR 32), 'hex'), NULL, g.created_at,
		e.payout_id, CASE WHEN e.payout_id IS NOT NULL THEN u.node_id END, CASE WHEN e.payout_id IS NOT NULL THEN u.kind END,
		CASE WHEN e.payout_id IS NOT NULL THEN u.share::numeric(78, 0) END,
		CASE WHEN e.payout_id IS NOT NULL THEN u.charged::numeric(78, 0) END, CASE WHEN e.payout_id IS NOT NULL THEN u.payee END,
		CASE WHEN e.payout_id IS NOT NULL THEN g.created_at END, CASE WHEN e.payout_id IS NOT NULL THEN false END, e.fee_id,
		CASE WHEN e.fee_id IS NOT NULL THEN u.fee::numeric(78, 0) END, CASE WHEN e.fee_id IS NOT NULL THEN g.created_at END, g.first_seq,
		g.last_seq
	FROM charge_groups g, LATERAL (SELECT g.hashes || ''::bytea AS hashes OFFSET 0) h, unnest(g.debit_ids, g.debit_seq, g.release_ids,
		g.release_seq, g.payout_ids, g.node_ids, g.kinds, g.payees, g.charged_wei, g.share_wei, g.released_wei, g.balance_after_wei,
		g.reserved_after_wei, g.reservation_ids, g.fee_ids, g.fee_wei) WITH ORDINALITY AS u (debit_id, debit_seq, release_id, release_seq, payout_id,
		node_id, kind, payee, charged, share, released, balance, reserved, reservation_id, fee_id, fee, place),
		-- A fee is told with its payout.
		LATERAL (VALUES (u.debit_id, u.debit_seq, 'debit', u.charged, u.reserved + u.released, u.payout_id,
				CASE WHEN u.payout_id IS NOT NULL THEN u.fee_id END),
			(u.release_id, u.release_seq, 'release', u.released, u.reserved, NULL, NULL))
			AS e (entry_id, seq, kind, amount, reserved, payout_id, fee_id)
	WHERE e.entry_id IS NOT NULL;
--> statement-breakpoint
-- Makes rows of the shares of these groups, all of a group at once: a batch takes rows. Of two who do it at once the second
-- waits, and finds it done.
CREATE OR REPLACE FUNCTION charge_shares_move(p_groups bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH locked AS (
    SELECT g.last_seq FROM charge_groups g WHERE g.last_seq = ANY (p_groups) AND NOT g.shares_moved ORDER BY g.last_seq FOR UPDATE
  ), moved AS (
    UPDATE charge_groups g SET shares_moved = true FROM locked l WHERE g.last_seq = l.last_seq RETURNING g.last_seq
  )
  INSERT INTO payout_rows (entry_id, node_id, receipt_hash, kind, amount_wei, gross_wei, earned_payee, payee, created_at, updated_at)
    SELECT s.entry_id, s.node_id, s.receipt_hash, s.kind, s.amount_wei, s.gross_wei, s.earned_payee, s.earned_payee, s.created_at,
      s.created_at
    FROM moved m JOIN charge_shares s ON s.group_last_seq = m.last_seq;
$$;
--> statement-breakpoint
-- Who writes into the view `ledger_entries` writes rows: gateways of the version before, while they are replaced.
CREATE OR REPLACE FUNCTION ledger_entry_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation'; END IF;
  NEW.created_at := coalesce(NEW.created_at, now());
  INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id,
      private_job_id, receipt_hash, reason, created_at)
    VALUES (NEW.entry_id, NEW.customer_id, NEW.kind, NEW.amount_wei, NEW.balance_after_wei, NEW.reserved_after_wei,
      NEW.reservation_id, NEW.private_job_id, NEW.receipt_hash, NEW.reason, NEW.created_at)
    RETURNING seq INTO NEW.seq;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_entry_insert INSTEAD OF INSERT OR UPDATE OR DELETE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entry_insert();
--> statement-breakpoint
-- Who changes the view `payouts` changes rows: gateways of the version before, while they are replaced. A share that is in a
-- group becomes a row with all of its group. A view cannot lock its rows, so a row that is not as it was read is not changed.
CREATE OR REPLACE FUNCTION payout_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.group_last_seq IS NOT NULL THEN PERFORM charge_shares_move(ARRAY[OLD.group_last_seq]); END IF;
  UPDATE payout_rows p SET entry_id = NEW.entry_id, node_id = NEW.node_id, receipt_hash = NEW.receipt_hash, kind = NEW.kind,
      private_job_id = NEW.private_job_id, amount_wei = NEW.amount_wei, gross_wei = NEW.gross_wei, held = NEW.held,
      earned_held = NEW.earned_held,
      settlement_status = NEW.settlement_status, batch_id = NEW.batch_id, earned_payee = NEW.earned_payee, payee = NEW.payee,
      settled_at = NEW.settled_at, created_at = NEW.created_at, updated_at = NEW.updated_at
    WHERE p.entry_id = OLD.entry_id AND p.settlement_status = OLD.settlement_status AND p.held = OLD.held
      AND p.batch_id IS NOT DISTINCT FROM OLD.batch_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'somebody else has changed the payout' USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER payout_change INSTEAD OF UPDATE ON payouts FOR EACH ROW EXECUTE FUNCTION payout_change();
--> statement-breakpoint
-- Who changes the view `protocol_fees` changes rows, as with `payouts`. What is in a group is never given back.
CREATE OR REPLACE FUNCTION fee_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.status := coalesce(NEW.status, 'earned');
    NEW.created_at := coalesce(NEW.created_at, now());
    INSERT INTO fee_rows (entry_id, receipt_hash, private_job_id, amount_wei, status, created_at)
      VALUES (NEW.entry_id, NEW.receipt_hash, NEW.private_job_id, NEW.amount_wei, NEW.status, NEW.created_at);
    RETURN NEW;
  END IF;
  UPDATE fee_rows f SET status = NEW.status WHERE f.entry_id = OLD.entry_id AND f.status = OLD.status;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the fee is part of a group, or somebody else has changed it' USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER fee_change INSTEAD OF INSERT OR UPDATE ON protocol_fees FOR EACH ROW EXECUTE FUNCTION fee_change();
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
      WHERE c.customer_id = p_customers[1] AND c.reserved_wei + s.amount <= c.balance_wei
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
      WHERE c.customer_id IS NULL OR c.reserved_wei + s.amount > c.balance_wei) THEN
    FOR r IN
      SELECT q.ord::int AS ord, q.amount, q.customer, c.customer_id IS NOT NULL AS known, c.balance_wei, c.reserved_wei,
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
        WHEN r.seen THEN 'conflict' WHEN v_reserved + r.amount > r.balance_wei THEN 'insufficient' END;
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
-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. Receipt, share and fee are written
-- with the debit, so that debits = payouts + fees at every commit. Answers with what is not simply settled, by its place
-- from 1: `closed`: the reservation was closed before with another outcome (released as stale, for instance), nothing is
-- debited; `unknown`.
--
-- From p_group_from charges of a customer on they are one row of `charge_groups`, with all of their entries, shares and fees
-- (docs/decisions/0035); NULL: never. What is held or of a private job may change, and is always rows; so is a release.
--
-- Whoever closes a reservation has its row, and whoever comes second waits and finds it closed: so all that belongs to one
-- request alone is written first, and the customer, for whom others wait, is locked last, in the order of their ids where
-- there are several. Numbers of entries are drawn behind that lock: their order is the order of the balances.
--
-- `settled_wei IS NULL` says the same of a reservation as `status = 'open'` (a constraint of the table), and is no reason to
-- look through the index of the open ones: until it is vacuumed that holds every reservation there ever was, and each
-- group read all of it (measured: 5 of 8 ms a group after 50,000 requests, and growing).
--
-- Planned once and not for each call: planning was a fifth of a group of one (908 and 691 µs), and nothing of a large one.
--
-- The lock of the view comes before the numbers are drawn: by it the log of a gateway of the version before knows who may
-- still commit a smaller one (`readFence`).
CREATE OR REPLACE FUNCTION ledger_charge(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json, p_group_from int)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_count int := cardinality(p_ids);
  v_whole boolean; v_places int[]; v_customers text[]; v_reserved numeric[]; v_jobs text[];
  v_grouped boolean[] := array_fill(false, ARRAY[v_count]);
  v_paying text[]; v_balances numeric[]; v_reserves numeric[];
BEGIN
  LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE;
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
  IF v_count >= p_group_from THEN
    SELECT array_agg(g.grouped ORDER BY g.ord) INTO v_grouped FROM (
      SELECT q.ord, q.fits AND count(*) FILTER (WHERE q.fits) OVER (PARTITION BY q.customer) >= p_group_from AS grouped
      FROM (
        SELECT u.ord, u.customer, u.customer IS NOT NULL AND u.job IS NULL AND u.charged > 0 AND NOT u.held AS fits
        FROM unnest(v_customers, v_jobs, p_charged, p_held) WITH ORDINALITY AS u (customer, job, charged, held, ord)
      ) q) g;
  END IF;
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  IF NOT true = ALL (v_grouped) THEN
    INSERT INTO payout_rows (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held, earned_held,
        earned_payee, payee, created_at, updated_at)
      SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, q.held, n.payout_address, n.payout_address,
        v_now, v_now
      FROM unnest(v_customers, v_jobs, p_charged, p_shares, p_hashes, p_nodes, p_kinds, p_held, p_payouts, v_grouped)
        AS q (customer, job, charged, share, hash, node, kind, held, payout, grouped)
      LEFT JOIN nodes n ON n.node_id = q.node
      WHERE q.share > 0 AND q.customer IS NOT NULL AND NOT q.grouped;
    INSERT INTO fee_rows (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
      SELECT q.entry, q.hash, q.job, q.fee, v_now
      FROM unnest(v_customers, v_jobs, p_fees, p_hashes, p_fee_entries, v_grouped)
        AS q (customer, job, fee, hash, entry, grouped)
      WHERE q.fee > 0 AND q.customer IS NOT NULL AND NOT q.grouped;
  END IF;
  IF NOT coalesce(v_customers[1] = ALL (v_customers), false) THEN
    PERFORM 1 FROM customers c WHERE c.customer_id = ANY (v_customers) ORDER BY c.customer_id FOR UPDATE;
  END IF;
  WITH c AS (
    UPDATE customers c SET reserved_wei = c.reserved_wei - s.reserved, balance_wei = c.balance_wei - s.charged
      FROM (SELECT q.customer, sum(q.reserved) AS reserved, sum(q.charged) AS charged
        FROM unnest(v_customers, v_reserved, p_charged) AS q (customer, reserved, charged)
        WHERE q.customer IS NOT NULL GROUP BY q.customer) s
      WHERE c.customer_id = s.customer
      RETURNING c.customer_id, c.balance_wei + s.charged AS balance, c.reserved_wei + s.reserved AS reserved
  )
  SELECT array_agg(c.customer_id), array_agg(c.balance), array_agg(c.reserved) INTO v_paying, v_balances, v_reserves FROM c;
  v_now := clock_timestamp();
  -- What is written as rows comes first, and behind it each customer's group.
  IF NOT true = ALL (v_grouped) THEN
    INSERT INTO ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
        reservation_id, private_job_id, receipt_hash, created_at)
      SELECT e.entry, q.customer, e.kind, e.amount, c.balance - q.charged_so_far,
        c.reserved - q.reserved_so_far + e.still_reserved, q.id, q.job, q.hash, v_now
      FROM (
        SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
        FROM unnest(p_ids, v_customers, v_reserved, v_jobs, p_charged, p_hashes, p_debits, p_releases, v_grouped)
          WITH ORDINALITY AS u (id, customer, reserved, job, charged, hash, debit, release, grouped, ord)
        WHERE u.customer IS NOT NULL AND NOT u.grouped
        WINDOW w AS (PARTITION BY u.customer ORDER BY u.ord)
      ) q
      JOIN unnest(v_paying, v_balances, v_reserves) AS c (customer, balance, reserved) ON c.customer = q.customer
      CROSS JOIN LATERAL (VALUES
        (1, q.debit, 'debit', q.charged, q.reserved - q.charged),
        (2, q.release, 'release', q.reserved - q.charged, 0)) AS e (turn, entry, kind, amount, still_reserved)
      WHERE e.amount > 0
      ORDER BY q.ord, e.turn;
  END IF;
  IF true = ANY (v_grouped) THEN
    INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, debit_seq, release_seq,
        reservation_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
        released_wei, balance_after_wei, reserved_after_wei, hashes, charged_total, shares_total, fees_total)
      SELECT max(greatest(s.debit_seq, s.release_seq)), min(s.debit_seq), (array_agg(s.debit ORDER BY s.ord))[1], s.customer,
        count(*), v_now, array_agg(s.debit_seq ORDER BY s.ord), array_agg(s.release_seq ORDER BY s.ord),
        array_agg(s.id ORDER BY s.ord), array_agg(s.debit ORDER BY s.ord),
        array_agg(CASE WHEN s.released > 0 THEN s.release END ORDER BY s.ord),
        array_agg(CASE WHEN s.share > 0 THEN s.payout END ORDER BY s.ord),
        array_agg(CASE WHEN s.fee > 0 THEN s.fee_entry END ORDER BY s.ord), array_agg(s.node ORDER BY s.ord),
        array_agg(s.kind ORDER BY s.ord), array_agg(n.payout_address ORDER BY s.ord), array_agg(s.charged ORDER BY s.ord),
        array_agg(s.share ORDER BY s.ord), array_agg(s.fee ORDER BY s.ord), array_agg(s.released ORDER BY s.ord),
        array_agg(s.balance ORDER BY s.ord), array_agg(s.reserved_left ORDER BY s.ord),
        string_agg(decode(substr(s.hash, 3), 'hex'), ''::bytea ORDER BY s.ord), sum(s.charged), sum(s.share), sum(s.fee)
      FROM (
        SELECT o.*, nextval('ledger_entries_seq_seq') AS debit_seq,
          CASE WHEN o.released > 0 THEN nextval('ledger_entries_seq_seq') END AS release_seq
        FROM (
          SELECT q.*, q.reserved - q.charged AS released, c.balance - q.charged_so_far AS balance,
            c.reserved - q.reserved_so_far AS reserved_left
          FROM (
            SELECT u.*, sum(u.charged) OVER w AS charged_so_far, sum(u.reserved) OVER w AS reserved_so_far
            FROM unnest(p_ids, v_customers, v_reserved, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_debits,
                p_releases, p_payouts, p_fee_entries, v_grouped)
              WITH ORDINALITY AS u (id, customer, reserved, charged, share, fee, hash, node, kind, debit, release, payout,
                fee_entry, grouped, ord)
            WHERE u.customer IS NOT NULL
            WINDOW w AS (PARTITION BY u.customer ORDER BY u.grouped, u.ord)
          ) q
          JOIN unnest(v_paying, v_balances, v_reserves) AS c (customer, balance, reserved) ON c.customer = q.customer
          WHERE q.grouped
          ORDER BY q.customer, q.ord OFFSET 0
        ) o
      ) s
      LEFT JOIN nodes n ON n.node_id = s.node
      GROUP BY s.customer;
  END IF;
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
--> statement-breakpoint
-- What a gateway of the version before calls (docs/decisions/0035): a row for each charge, as it knows them.
CREATE OR REPLACE FUNCTION ledger_settle(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE sql AS $$
  SELECT * FROM ledger_charge(p_ids, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_held, p_debits, p_releases,
    p_payouts, p_fee_entries, p_receipts, NULL);
$$;
