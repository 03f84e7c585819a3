-- The tables, views and functions as the migrations before 0.1.0 leave them, which chain.json.gz keeps for databases that
-- have some of them. tests/db/baseline.test.ts compares both ways. A function may name what is made after it.
SET LOCAL check_function_bodies = off;
CREATE FUNCTION audit_ensure_partitions(p_from timestamp with time zone, p_until timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  -- A Monday.
  v_origin constant timestamptz := '2024-01-01T00:00:00Z';
  v_week timestamptz; v_parent text; v_name text; v_made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 71);
  FOREACH v_parent IN ARRAY ARRAY['admin_access_events', 'admin_approval_events', 'admin_command_events'] LOOP
    v_week := date_bin('7 days', p_from, v_origin);
    WHILE v_week <= p_until LOOP
      v_name := v_parent || '_p' || to_char(v_week AT TIME ZONE 'UTC', 'YYYYMMDD');
      IF to_regclass(v_name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', v_name, v_parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
          v_parent, v_name, v_week, v_week + interval '168 hours');
        v_made := v_made + 1;
      END IF;
      v_week := v_week + interval '168 hours';
    END LOOP;
  END LOOP;
  RETURN v_made;
END $$;
CREATE TABLE charge_groups (
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    group_id text NOT NULL,
    customer_id text NOT NULL,
    rows integer NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    shares_moved boolean DEFAULT false NOT NULL,
    charged_total numeric(78,0) NOT NULL,
    shares_total numeric(78,0) NOT NULL,
    fees_total numeric(78,0) NOT NULL,
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
    CONSTRAINT charge_groups_split CHECK ((charged_total = (shares_total + fees_total)))
)
WITH (toast_tuple_target='8160');
ALTER TABLE charge_groups ALTER COLUMN debit_seq SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN debit_seq SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN release_seq SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN release_seq SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN reservation_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN reservation_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN debit_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN debit_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN release_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN release_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN payout_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN payout_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN fee_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN fee_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN node_ids SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN node_ids SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN kinds SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN kinds SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN payees SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN payees SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN charged_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN charged_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN share_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN share_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN fee_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN fee_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN released_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN released_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN balance_after_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN balance_after_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN reserved_after_wei SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN reserved_after_wei SET STORAGE EXTERNAL;
ALTER TABLE charge_groups ALTER COLUMN hashes SET STATISTICS 0;
ALTER TABLE charge_groups ALTER COLUMN hashes SET STORAGE EXTERNAL;
CREATE FUNCTION charge_group_adds_up(g charge_groups) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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
CREATE FUNCTION charge_group_is_kept() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION charge_shares_move(p_groups bigint[]) RETURNS void
    LANGUAGE sql
    AS $$
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
CREATE FUNCTION directory_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE directory_versions SET version = version + 1
    WHERE topic = TG_ARGV[0] AND xmin <> pg_current_xact_id()::xid;
  IF FOUND THEN
    PERFORM pg_notify('penstock_changes', TG_ARGV[0]);
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION fee_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION lease_grant(p_spent bigint, p_need bigint, p_want bigint, p_room bigint, p_alone boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT CASE
    WHEN p_need > p_room THEN greatest(p_spent, p_room)
    ELSE p_need + least(greatest(p_want - p_need, 0), CASE WHEN p_alone THEN p_room - p_need ELSE (p_room - p_need) / 4 END)
  END
$$;
CREATE FUNCTION ledger_charge(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[], p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json, p_group_from integer) RETURNS TABLE(place integer, outcome text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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
CREATE FUNCTION ledger_entry_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION ledger_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION ledger_reserve(p_ids text[], p_customers text[], p_amounts numeric[], p_entries text[], p_jobs text[], p_ttl_ms bigint) RETURNS TABLE(place integer, outcome text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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
CREATE FUNCTION ledger_settle(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[], p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json) RETURNS TABLE(place integer, outcome text)
    LANGUAGE sql
    AS $$
  SELECT * FROM ledger_charge(p_ids, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_held, p_debits, p_releases,
    p_payouts, p_fee_entries, p_receipts, NULL);
$$;
CREATE FUNCTION payout_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION receipt_group_insert(p_rows integer, p_hashes text, p_shared text, c text[], p_mac text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION receipt_group_of(p_hash text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $_$
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
END $_$;
CREATE FUNCTION receipt_places_make(p_rows integer) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    AS $$
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
CREATE FUNCTION receipt_row_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION receipts_insert(p_receipts json) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION receipts_insert_columns(c text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION receipts_within(p_from bigint, p_to bigint) RETURNS TABLE(seq bigint, receipt_hash text)
    LANGUAGE plpgsql STABLE ROWS 256
    AS $$
BEGIN
  RETURN QUERY SELECT r.seq, r.receipt_hash FROM receipts r
    WHERE r.group_last_seq > p_from AND r.group_last_seq < p_to + 100000 AND r.group_first_seq <= p_to
      AND r.seq > p_from AND r.seq <= p_to;
END $$;
CREATE FUNCTION request_bucket(p_ms integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT CASE WHEN p_ms > 0 THEN ceil(ln(p_ms::double precision) / ln(1.1::double precision))::smallint
    WHEN p_ms IS NOT NULL THEN -1::smallint END
$$;
CREATE FUNCTION request_cells(p_from timestamp with time zone, p_until timestamp with time zone, p_step interval, p_node text, p_model text, p_all boolean, p_rows integer) RETURNS TABLE(at timestamp with time zone, kind text, name text, requests integer, failed integer, prompt_tokens bigint, completion_tokens bigint, buckets smallint[], ttft_counts integer[], duration_counts integer[])
    LANGUAGE sql STABLE
    AS $$
  WITH newest AS (
    SELECT g.minute, g.group_id, sum(g.rows) OVER (ORDER BY g.newest DESC, g.group_id) - g.rows AS newer
    FROM request_groups g
    WHERE g.minute >= date_trunc('minute', p_from) AND g.minute < p_until AND g.newest >= p_from AND g.oldest < p_until
      AND g.newest < p_until + interval '1 minute'
      AND (p_node IS NULL OR g.names @> ARRAY['node:' || p_node]) AND (p_model IS NULL OR g.names @> ARRAY['model:' || p_model])
  ), asked AS MATERIALIZED (
    SELECT date_bin(p_step, u.at, 'epoch') AS at, r.node_id, r.model, r.prompt_tokens, r.completion_tokens,
      r.code IS NOT NULL AND r.status <> 499 AS failed,
      request_bucket(r.ttft_ms) AS ttft, request_bucket(r.duration_ms) AS duration
    FROM newest JOIN request_groups g USING (minute, group_id),
      -- Once for a group and not for each of its requests.
      LATERAL (SELECT g.shared[8] AS node_id, g.shared[7] AS model, g.shared[15]::integer AS prompt_tokens,
        g.shared[16]::integer AS completion_tokens, g.shared[19] AS code, g.shared[18]::smallint AS status,
        g.shared[13]::integer AS ttft_ms, g.shared[14]::integer AS duration_ms OFFSET 0) s,
      unnest(g.at_ms, g.node_id, g.model, g.prompt_tokens, g.completion_tokens, g.code, g.status, g.ttft_ms, g.duration_ms)
        AS e (at_ms, node_id, model, prompt_tokens, completion_tokens, code, status, ttft_ms, duration_ms),
      LATERAL (SELECT g.minute + e.at_ms * interval '1 millisecond' AS at) u,
      LATERAL (SELECT coalesce(e.node_id, s.node_id) AS node_id, coalesce(e.model, s.model) AS model,
        coalesce(e.prompt_tokens, s.prompt_tokens) AS prompt_tokens,
        coalesce(e.completion_tokens, s.completion_tokens) AS completion_tokens, coalesce(e.code, s.code) AS code,
        coalesce(e.status, s.status) AS status, coalesce(e.ttft_ms, s.ttft_ms) AS ttft_ms,
        coalesce(e.duration_ms, s.duration_ms) AS duration_ms) r
    WHERE (p_rows IS NULL OR newer < p_rows) AND u.at >= p_from AND u.at < p_until
      AND (p_node IS NULL OR r.node_id = p_node) AND (p_model IS NULL OR r.model = p_model)
  ), named AS (
    SELECT 'all' AS kind, '' AS name, a.* FROM asked a
    UNION ALL SELECT 'node', a.node_id, a.* FROM asked a WHERE a.node_id IS NOT NULL AND NOT p_all
    UNION ALL SELECT 'model', a.model, a.* FROM asked a WHERE a.model IS NOT NULL AND NOT p_all
  ), whole AS (
    SELECT n.at, n.kind, n.name, count(*)::integer AS requests, (count(*) FILTER (WHERE n.failed))::integer AS failed,
      coalesce(sum(n.prompt_tokens), 0)::bigint AS prompt_tokens,
      coalesce(sum(n.completion_tokens), 0)::bigint AS completion_tokens
    FROM named n GROUP BY 1, 2, 3
  ), measured AS (
    SELECT n.at, n.kind, n.name, n.ttft AS bucket, 1 AS ttft, 0 AS duration FROM named n WHERE n.ttft IS NOT NULL
    UNION ALL SELECT n.at, n.kind, n.name, n.duration, 0, 1 FROM named n
  ), counted AS (
    SELECT m.at, m.kind, m.name, m.bucket, sum(m.ttft)::integer AS ttft, sum(m.duration)::integer AS duration
    FROM measured m GROUP BY 1, 2, 3, 4
  ), packed AS (
    SELECT c.at, c.kind, c.name, array_agg(c.bucket) AS buckets, array_agg(c.ttft) AS ttft_counts,
      array_agg(c.duration) AS duration_counts
    FROM counted c GROUP BY 1, 2, 3
  )
  SELECT w.at, w.kind, w.name, w.requests, w.failed, w.prompt_tokens, w.completion_tokens, p.buckets, p.ttft_counts,
    p.duration_counts
  FROM whole w JOIN packed p ON (p.at, p.kind, p.name) = (w.at, w.kind, w.name)
$$;
CREATE FUNCTION request_group_insert(p_minute text, p_group_id text, p_oldest text, p_newest text, p_rows integer, p_names text, p_ttft_most integer, p_shared text, c text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM request_groups g
    WHERE g.minute = p_minute::timestamptz AND g.group_id = p_group_id AND g.rows < p_rows;
  INSERT INTO request_groups VALUES (p_minute::timestamptz, p_group_id, p_oldest::timestamptz, p_newest::timestamptz, p_rows,
    p_names::text[], p_ttft_most, p_shared::text[],
    nullif(c[1], '')::text[], nullif(c[2], '')::integer[], nullif(c[3], '')::text[], nullif(c[4], '')::text[],
    nullif(c[5], '')::text[], nullif(c[6], '')::boolean[], nullif(c[7], '')::text[], nullif(c[8], '')::text[],
    nullif(c[9], '')::smallint[], nullif(c[10], '')::integer[], nullif(c[11], '')::integer[], nullif(c[12], '')::integer[],
    nullif(c[13], '')::integer[], nullif(c[14], '')::integer[], nullif(c[15], '')::integer[], nullif(c[16], '')::integer[],
    nullif(c[17], '')::smallint[], nullif(c[18], '')::smallint[], nullif(c[19], '')::text[], nullif(c[20], '')::numeric[],
    nullif(c[21], '')::text[], nullif(c[22], '')::jsonb[])
  ON CONFLICT DO NOTHING;
  IF p_minute::timestamptz < now() - interval '15 minutes' THEN
    INSERT INTO request_sums_late VALUES (date_bin('1 hour', p_minute::timestamptz, 'epoch'));
  END IF;
END $$;
CREATE FUNCTION request_groups_newest(p_from timestamp with time zone, p_last timestamp with time zone, p_names text[], p_ttft integer, p_requests integer) RETURNS TABLE(minute timestamp with time zone, group_id text, reach timestamp with time zone)
    LANGUAGE plpgsql STABLE ROWS 50
    SET enable_seqscan TO 'off'
    SET "TimeZone" TO 'UTC'
    AS $_$
DECLARE
  v_end timestamptz := CASE WHEN isfinite(p_last) THEN date_trunc('minute', p_last) + interval '1 minute' ELSE p_last END;
  v_newest text := CASE WHEN cardinality(p_names) > 0 THEN 'g.newest + interval ''0''' ELSE 'g.newest' END;
  v_conditions text; v_minutes timestamptz[] := '{}'; v_ids text[] := '{}'; v_reach timestamptz; v_left integer := p_requests;
  v_day text; r record;
BEGIN
  v_conditions := format('%1$s >= $1 AND %1$s < $2 AND g.oldest <= $3', v_newest)
    || CASE WHEN cardinality(p_names) > 0 THEN ' AND g.names @> $4' ELSE '' END
    || CASE WHEN p_ttft IS NOT NULL THEN ' AND g.ttft_most >= $5' ELSE '' END;
  <<days>>
  FOR v_day IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'request_groups'::regclass
      AND (NOT isfinite(p_from) OR c.relname >= 'request_groups_p' || to_char(p_from, 'YYYYMMDD'))
      AND (NOT isfinite(p_last) OR c.relname <= 'request_groups_p' || to_char(p_last, 'YYYYMMDD'))
    ORDER BY 1 DESC LOOP
    FOR r IN EXECUTE format('SELECT g.minute, g.group_id, g.newest, g.rows FROM %I g WHERE %s ORDER BY %s DESC LIMIT $6',
      v_day, v_conditions, v_newest) USING p_from, v_end, p_last, p_names, p_ttft, v_left + 1 LOOP
      IF r.rows > v_left THEN
        v_reach := r.newest;
        EXIT days;
      END IF;
      v_left := v_left - r.rows;
      v_minutes := v_minutes || r.minute;
      v_ids := v_ids || r.group_id;
    END LOOP;
  END LOOP;
  RETURN QUERY SELECT u.minute, u.id, v_reach FROM unnest(v_minutes, v_ids) AS u (minute, id);
END $_$;
CREATE FUNCTION request_record_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO request_groups (minute, group_id, oldest, newest, rows, names, ttft_most, shared, request_id, at_ms)
  VALUES (date_trunc('minute', NEW.at), NEW.request_id, NEW.at, NEW.at, 1,
    array_remove(ARRAY['customer:' || NEW.customer_id, 'key:' || NEW.key_id, 'model:' || NEW.model, 'node:' || NEW.node_id,
      'code:' || NEW.code, 'status:' || nullif(NEW.status, 200)], NULL),
    NEW.ttft_ms,
    ARRAY[NULL, NULL,
      NEW.customer_id, NEW.key_id, NEW.operation, NEW.stream::text, NEW.model, NEW.node_id, NEW.tries::text,
      NEW.queue_ms::text, NEW.load_ms::text, NEW.sent_ms::text, NEW.ttft_ms::text, NEW.duration_ms::text,
      NEW.prompt_tokens::text, NEW.completion_tokens::text, NEW.cache_percent::text, NEW.status::text, NEW.code,
      NEW.cost_wei::text, NEW.receipt_hash, NEW.failed_tries::text],
    ARRAY[NEW.request_id], ARRAY[(extract(epoch FROM NEW.at - date_trunc('minute', NEW.at)) * 1000)::integer])
  ON CONFLICT DO NOTHING;
  RETURN NEW;
END $$;
CREATE FUNCTION request_records_insert(p_records json) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM request_records_insert_columns(ARRAY(SELECT value FROM json_array_elements_text(p_records)));
END $$;
CREATE FUNCTION request_records_insert_columns(c text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION request_records_keep(p_from timestamp with time zone, p_until timestamp with time zone, p_keep_from timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    SET "TimeZone" TO 'UTC'
    AS $$
DECLARE
  v_day timestamptz := date_trunc('day', p_from); v_name text; v_dropped integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 75);
  WHILE v_day <= p_until LOOP
    v_name := 'request_groups_p' || to_char(v_day, 'YYYYMMDD');
    IF to_regclass(v_name) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE request_groups INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING INDEXES)', v_name);
      EXECUTE format('ALTER TABLE request_groups ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        v_name, v_day, v_day + interval '24 hours');
      -- Nobody filters by what is in their arrays, and to analyze it costs more than to write it.
      EXECUTE (SELECT format('ALTER TABLE %I ', v_name) || string_agg(format('ALTER COLUMN %I SET STATISTICS 0', a.attname), ', ')
        FROM pg_attribute a WHERE a.attrelid = 'request_groups'::regclass AND a.attnum > 0 AND a.attstorage = 'e');
    END IF;
    v_day := v_day + interval '24 hours';
  END LOOP;
  FOR v_name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'request_groups'::regclass
      AND c.relname < 'request_groups_p' || to_char(p_keep_from, 'YYYYMMDD') ORDER BY 1 LOOP
    EXECUTE format('DROP TABLE %I', v_name);
    v_dropped := v_dropped + 1;
  END LOOP;
  RETURN v_dropped;
END $$;
CREATE FUNCTION request_sums_make(p_closed timestamp with time zone, p_keep_from timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    AS $$
DECLARE
  v_hour timestamptz; v_next timestamptz; v_day timestamptz; v_keep timestamptz := date_trunc('day', p_keep_from);
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 76);
  SELECT max(s.at) + interval '1 hour' INTO v_next FROM request_sums s WHERE s.span_seconds = 3600;
  -- Those of hours that come anyway, or of rows that are gone.
  DELETE FROM request_sums_late l WHERE v_next IS NULL OR l.at >= v_next OR l.at < v_keep;
  SELECT min(l.at) INTO v_hour FROM request_sums_late l;
  IF v_hour IS NOT NULL THEN
    DELETE FROM request_sums_late l WHERE l.at = v_hour;
    -- After a restore the sums are there and the rows are not.
    IF (SELECT coalesce(sum(g.rows), 0) FROM request_groups g WHERE g.minute >= v_hour AND g.minute < v_hour + interval '1 hour')
      < (SELECT s.requests FROM request_sums s WHERE (s.span_seconds, s.at, s.kind, s.name) = (3600, v_hour, 'all', '')) THEN
      RETURN true;
    END IF;
    DELETE FROM request_sums s WHERE s.span_seconds = 3600 AND s.at = v_hour;
  ELSE
    IF v_next IS NULL THEN
      SELECT min(g.newest) INTO v_next FROM request_groups g;
    END IF;
    IF v_next IS NULL THEN
      RETURN false;
    END IF;
    v_hour := date_trunc('hour', greatest(v_next, v_keep));
    IF v_hour + interval '1 hour' > p_closed THEN
      DELETE FROM request_sums s WHERE s.at < v_keep;
      RETURN false;
    END IF;
  END IF;
  INSERT INTO request_sums
    SELECT 3600, c.* FROM request_cells(v_hour, v_hour + interval '1 hour', '1 hour', NULL, NULL, false, NULL) c;
  INSERT INTO request_sums VALUES (3600, v_hour, 'all', '', 0, 0, 0, 0, '{}', '{}', '{}') ON CONFLICT DO NOTHING;
  v_day := date_trunc('day', v_hour);
  DELETE FROM request_sums s WHERE s.span_seconds = 86400 AND s.at = v_day;
  -- A reader takes the days before the newest one that is summed up from their sums alone.
  IF FOUND OR extract(hour FROM v_hour) = 23
    OR EXISTS (SELECT FROM request_sums s WHERE s.span_seconds = 86400 AND s.at > v_day) THEN
    INSERT INTO request_sums
      WITH hours AS (
        SELECT * FROM request_sums s
        WHERE s.span_seconds = 3600 AND s.at >= v_day AND s.at < v_day + interval '1 day'
      ), counted AS (
        SELECT h.kind, h.name, u.bucket, sum(u.ttft)::integer AS ttft, sum(u.duration)::integer AS duration
        FROM hours h, unnest(h.buckets, h.ttft_counts, h.duration_counts) AS u (bucket, ttft, duration) GROUP BY 1, 2, 3
      ), packed AS (
        SELECT c.kind, c.name, array_agg(c.bucket) AS buckets, array_agg(c.ttft) AS ttft_counts,
          array_agg(c.duration) AS duration_counts
        FROM counted c GROUP BY 1, 2
      ), whole AS (
        SELECT h.kind, h.name, sum(h.requests)::integer AS requests, sum(h.failed)::integer AS failed,
          sum(h.prompt_tokens)::bigint AS prompt_tokens, sum(h.completion_tokens)::bigint AS completion_tokens
        FROM hours h GROUP BY 1, 2
      )
      SELECT 86400, v_day, w.kind, w.name, w.requests, w.failed, w.prompt_tokens,
        w.completion_tokens, coalesce(p.buckets, '{}'), coalesce(p.ttft_counts, '{}'), coalesce(p.duration_counts, '{}')
      FROM whole w LEFT JOIN packed p ON (p.kind, p.name) = (w.kind, w.name);
  END IF;
  RETURN true;
END $$;
CREATE FUNCTION row_revised() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  NEW.revision := gen_random_uuid();
  RETURN NEW;
END $$;
CREATE FUNCTION sync_quota_lease(p_customer text, p_day date, p_lease text, p_seq bigint, p_quota bigint, p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint, p_asking_ms double precision) RETURNS TABLE(granted bigint, remaining double precision, others boolean, wait_ms double precision)
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_taken bigint; v_cap bigint; v_seq bigint; v_next bigint; v_alone boolean; v_reserve boolean;
BEGIN
  SELECT q.taken INTO v_taken FROM quota_days q WHERE q.customer_id = p_customer AND q.day = p_day FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO quota_days (customer_id, day) VALUES (p_customer, p_day) ON CONFLICT DO NOTHING;
    SELECT q.taken INTO v_taken FROM quota_days q WHERE q.customer_id = p_customer AND q.day = p_day FOR UPDATE;
  END IF;
  SELECT l.cap, l.seq INTO v_cap, v_seq FROM quota_leases l
    WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id = p_lease;
  IF NOT FOUND THEN
    IF NOT p_fresh THEN RETURN; END IF;
    v_cap := 0; v_seq := -1;
  END IF;
  IF p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(bool_or(l.cap > l.spent OR l.expires_at <
    clock_timestamp() + (p_ttl_ms - p_asking_ms) * interval '1 ms'), false) INTO v_alone, v_reserve FROM quota_leases l
    WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id <> p_lease AND l.expires_at > clock_timestamp();
  IF p_close THEN v_next := p_spent;
  ELSE v_next := lease_grant(p_spent, p_need, p_want, v_cap + p_quota - v_taken, v_alone);
  END IF;
  -- Giving back may be forgotten by a crash; taking must not be.
  IF v_next <= v_cap THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  IF v_next <> v_cap THEN
    v_taken := v_taken + v_next - v_cap;
    UPDATE quota_days q SET taken = v_taken WHERE q.customer_id = p_customer AND q.day = p_day;
  END IF;
  IF p_close THEN
    DELETE FROM quota_leases l WHERE l.customer_id = p_customer AND l.day = p_day AND l.lease_id = p_lease;
  ELSE
    INSERT INTO quota_leases AS l (customer_id, day, cap, spent, lease_id, seq, expires_at)
      VALUES (p_customer, p_day, v_next, p_spent, p_lease, p_seq, clock_timestamp() + p_ttl_ms * interval '1 ms')
      ON CONFLICT (customer_id, day, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_reserve THEN
    PERFORM pg_notify('penstock_limits', p_lease || ' quota:' || p_customer || ':' || p_day);
  END IF;
  RETURN QUERY SELECT v_next, greatest(p_quota - v_taken, 0)::double precision, v_reserve, 0::double precision;
END $$;
CREATE FUNCTION sync_rate_lease(p_key text, p_lease text, p_seq bigint, p_capacity double precision, p_per_second double precision, p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint) RETURNS TABLE(granted bigint, remaining double precision, others boolean, wait_ms double precision)
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_level double precision; v_at timestamptz; v_now timestamptz; v_cap bigint; v_seq bigint; v_next bigint;
  v_alone boolean; v_out bigint;
BEGIN
  SELECT b.level, b.at INTO v_level, v_at FROM rate_buckets b WHERE b.key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO rate_buckets (key, level, at) VALUES (p_key, p_capacity, clock_timestamp()) ON CONFLICT DO NOTHING;
    SELECT b.level, b.at INTO v_level, v_at FROM rate_buckets b WHERE b.key = p_key FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
  END IF;
  v_now := clock_timestamp();
  DELETE FROM rate_leases l WHERE l.key = p_key AND l.lease_id <> p_lease AND l.expires_at <= v_now;
  SELECT l.cap, l.seq INTO v_cap, v_seq FROM rate_leases l WHERE l.key = p_key AND l.lease_id = p_lease;
  IF NOT FOUND THEN
    IF NOT p_fresh THEN RETURN; END IF;
    v_cap := 0; v_seq := -1;
  END IF;
  IF p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(sum(greatest(l.cap - l.spent, 0)), 0)::bigint INTO v_alone, v_out FROM rate_leases l
    WHERE l.key = p_key AND l.lease_id <> p_lease;
  v_level := greatest(0, least(
    p_capacity - v_out - greatest(v_cap - p_spent, 0),
    v_level + greatest(0, extract(epoch FROM v_now - v_at)) * p_per_second));
  IF p_close THEN v_next := p_spent;
  ELSE v_next := lease_grant(p_spent, p_need, p_want,
    least(v_cap + floor(v_level + 1e-6)::bigint, p_spent + floor(p_capacity)::bigint), v_alone);
  END IF;
  v_level := greatest(0, v_level + v_cap - v_next);
  UPDATE rate_buckets b SET level = v_level, at = v_now WHERE b.key = p_key;
  IF p_close THEN
    DELETE FROM rate_leases l WHERE l.key = p_key AND l.lease_id = p_lease;
  ELSE
    INSERT INTO rate_leases AS l (key, cap, spent, lease_id, seq, expires_at)
      VALUES (p_key, v_next, p_spent, p_lease, p_seq, v_now + p_ttl_ms * interval '1 ms')
      ON CONFLICT (key, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_out > 0 THEN PERFORM pg_notify('penstock_limits', p_lease || ' rate:' || p_key); END IF;
  RETURN QUERY SELECT v_next, v_level, v_out > 0, greatest(0, 1 - v_level) / p_per_second * 1000;
END $$;
CREATE FUNCTION sync_slot_lease(p_customer text, p_lease text, p_seq bigint, p_slots bigint, p_spent bigint, p_need bigint, p_want bigint, p_close boolean, p_ttl_ms bigint, p_asking_ms double precision) RETURNS TABLE(granted bigint, remaining double precision, others boolean, wait_ms double precision)
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_seq bigint; v_next bigint; v_alone boolean; v_reserve boolean; v_others bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, hashtext(p_customer));
  DELETE FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id <> p_lease AND l.expires_at <= clock_timestamp();
  SELECT l.seq INTO v_seq FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id = p_lease;
  IF FOUND AND p_seq <= v_seq THEN RETURN; END IF;
  SELECT count(*) = 0, coalesce(bool_or(l.cap > l.spent OR l.expires_at <
    clock_timestamp() + (p_ttl_ms - p_asking_ms) * interval '1 ms'), false), coalesce(sum(l.cap), 0)::bigint
    INTO v_alone, v_reserve, v_others FROM slot_leases l
    WHERE l.customer_id = p_customer AND l.lease_id <> p_lease;
  IF p_close THEN
    v_next := p_spent;
    DELETE FROM slot_leases l WHERE l.customer_id = p_customer AND l.lease_id = p_lease;
  ELSE
    v_next := lease_grant(p_spent, p_need, p_want, greatest(p_slots - v_others, 0), v_alone);
    INSERT INTO slot_leases AS l (customer_id, cap, spent, lease_id, seq, expires_at)
      VALUES (p_customer, v_next, p_spent, p_lease, p_seq, clock_timestamp() + p_ttl_ms * interval '1 ms')
      ON CONFLICT (customer_id, lease_id)
      DO UPDATE SET cap = excluded.cap, spent = excluded.spent, seq = excluded.seq, expires_at = excluded.expires_at;
  END IF;
  IF v_next < p_need AND v_reserve THEN PERFORM pg_notify('penstock_limits', p_lease || ' slots:' || p_customer); END IF;
  RETURN QUERY SELECT v_next, greatest(p_slots - v_others - v_next, 0)::double precision, v_reserve, 0::double precision;
END $$;
CREATE TABLE admin_access_events (
    event_id text NOT NULL,
    actor_type text NOT NULL,
    actor_role text NOT NULL,
    actor_hash_prefix text,
    method text NOT NULL,
    path_template text NOT NULL,
    query_keys jsonb NOT NULL,
    status_code smallint NOT NULL,
    outcome text NOT NULL,
    error_code text,
    user_agent_hash_prefix text,
    ip_hash_prefix text,
    request_id text NOT NULL,
    created_at timestamp(3) with time zone NOT NULL
)
PARTITION BY RANGE (created_at);
CREATE TABLE admin_approval_events (
    event_id text NOT NULL,
    action text NOT NULL,
    actor_type text NOT NULL,
    actor_role text NOT NULL,
    actor_hash_prefix text,
    reason text,
    metadata jsonb NOT NULL,
    request_id text,
    created_at timestamp(3) with time zone NOT NULL,
    writer_id text NOT NULL,
    seq bigint NOT NULL,
    mac bytea NOT NULL,
    category text NOT NULL,
    target_type text NOT NULL,
    target_id text,
    approver_hash_prefix text,
    approval_policy text NOT NULL,
    confirmation text
)
PARTITION BY RANGE (created_at);
CREATE TABLE admin_command_events (
    event_id text NOT NULL,
    action text NOT NULL,
    actor_type text NOT NULL,
    actor_role text NOT NULL,
    actor_hash_prefix text,
    reason text,
    metadata jsonb NOT NULL,
    request_id text,
    created_at timestamp(3) with time zone NOT NULL,
    writer_id text NOT NULL,
    seq bigint NOT NULL,
    mac bytea NOT NULL,
    command_id text NOT NULL
)
PARTITION BY RANGE (created_at);
CREATE TABLE admin_tokens (
    token_hash bytea NOT NULL,
    role text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE audit_chains (
    writer_id text NOT NULL,
    ordinal integer NOT NULL,
    key_id text NOT NULL,
    seq bigint NOT NULL,
    mac bytea NOT NULL,
    last_at timestamp(3) with time zone NOT NULL,
    proof bytea NOT NULL
);
CREATE TABLE audit_purge_runs (
    run_id text NOT NULL,
    status text NOT NULL,
    older_than_days integer NOT NULL,
    cutoff timestamp(3) with time zone NOT NULL,
    asker jsonb NOT NULL,
    eligible_access bigint NOT NULL,
    eligible_command bigint NOT NULL,
    eligible_approval bigint NOT NULL,
    purged_access bigint DEFAULT 0 NOT NULL,
    purged_command bigint DEFAULT 0 NOT NULL,
    purged_approval bigint DEFAULT 0 NOT NULL,
    started_at timestamp(3) with time zone NOT NULL,
    finished_at timestamp(3) with time zone
);
CREATE TABLE audit_tombstones (
    writer_id text NOT NULL,
    seq bigint NOT NULL,
    mac bytea NOT NULL,
    run_id text NOT NULL,
    purged_at timestamp(3) with time zone NOT NULL,
    key_id text NOT NULL,
    proof bytea NOT NULL
);
CREATE VIEW charge_shares AS
 SELECT u.payout_id AS entry_id,
    u.node_id,
    ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
    u.kind,
    (u.share)::numeric(78,0) AS amount_wei,
    (u.charged)::numeric(78,0) AS gross_wei,
    u.payee AS earned_payee,
    g.created_at,
    g.shares_moved,
    g.last_seq AS group_last_seq
   FROM charge_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.payout_ids, g.node_ids, g.kinds, g.share_wei, g.charged_wei, g.payees) WITH ORDINALITY u(payout_id, node_id, kind, share, charged, payee, place)
  WHERE (u.payout_id IS NOT NULL);
CREATE TABLE customers (
    customer_id text NOT NULL,
    display_name text NOT NULL,
    account_status text DEFAULT 'active'::text NOT NULL,
    gateway_policy jsonb,
    token_hash bytea NOT NULL,
    webhook_secret_sealed bytea NOT NULL,
    balance_wei numeric(78,0) DEFAULT 0 NOT NULL,
    reserved_wei numeric(78,0) DEFAULT 0 NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    revision uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT customer_balance_is_uint256 CHECK ((balance_wei < ((2)::numeric ^ (256)::numeric))),
    CONSTRAINT customer_reserved_within_balance CHECK ((((0)::numeric <= reserved_wei) AND (reserved_wei <= balance_wei)))
)
WITH (fillfactor='20');
CREATE TABLE directory_versions (
    topic text NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE enrollment_tokens (
    token_id text NOT NULL,
    token_hash bytea NOT NULL,
    display_prefix text NOT NULL,
    customer_id text NOT NULL,
    name text NOT NULL,
    visibility text NOT NULL,
    privacy_class text NOT NULL,
    node_class text NOT NULL,
    endpoint_url_allowed boolean NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    used_at timestamp(3) with time zone,
    used_by text
);
CREATE TABLE envelope_replays (
    node_id text NOT NULL,
    public_key_hash bytea NOT NULL,
    command_id text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE fee_rows (
    entry_id text NOT NULL,
    receipt_hash text NOT NULL,
    private_job_id text,
    amount_wei numeric(78,0) NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    status text DEFAULT 'earned'::text NOT NULL,
    CONSTRAINT fee_amount_positive CHECK ((amount_wei > (0)::numeric))
);
CREATE TABLE gateway_keys (
    key_id text NOT NULL,
    customer_id text NOT NULL,
    key_hash bytea NOT NULL,
    display_prefix text NOT NULL,
    name text NOT NULL,
    node_scope jsonb,
    model_policy jsonb,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    last_used_at timestamp(3) with time zone,
    expires_at timestamp(3) with time zone,
    revoked_at timestamp(3) with time zone
);
CREATE TABLE idempotency_keys (
    customer_id text NOT NULL,
    key_hash bytea NOT NULL,
    fingerprint bytea NOT NULL,
    request_id text NOT NULL,
    status text DEFAULT 'in_progress'::text NOT NULL,
    receipt_hash text,
    usage jsonb,
    http_status integer,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    completed_at timestamp(3) with time zone,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE known_models (
    model_id text NOT NULL,
    known_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE ledger_rows (
    entry_id text NOT NULL,
    seq bigint NOT NULL,
    customer_id text NOT NULL,
    kind text NOT NULL,
    amount_wei numeric(78,0) NOT NULL,
    balance_after_wei numeric(78,0) NOT NULL,
    reserved_after_wei numeric(78,0) NOT NULL,
    reservation_id text,
    private_job_id text,
    receipt_hash text,
    reason text,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ledger_amount_positive CHECK ((amount_wei > (0)::numeric)),
    CONSTRAINT ledger_reservation_of_kind CHECK (((kind = ANY (ARRAY['admin_credit'::text, 'admin_debit'::text])) = (reservation_id IS NULL))),
    CONSTRAINT ledger_reserved_within_balance CHECK ((((0)::numeric <= reserved_after_wei) AND (reserved_after_wei <= balance_after_wei)))
);
CREATE VIEW ledger_entries AS
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
  WHERE (u.release_id IS NOT NULL);
ALTER TABLE ledger_rows ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger_entries_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE payout_rows (
    entry_id text NOT NULL,
    node_id text NOT NULL,
    receipt_hash text NOT NULL,
    kind text NOT NULL,
    private_job_id text,
    amount_wei numeric(78,0) NOT NULL,
    gross_wei numeric(78,0) NOT NULL,
    held boolean DEFAULT false NOT NULL,
    settlement_status text DEFAULT 'pending'::text NOT NULL,
    batch_id text,
    payee text,
    settled_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    earned_payee text,
    earned_held boolean DEFAULT false NOT NULL,
    CONSTRAINT payout_amount_positive CHECK (((amount_wei > (0)::numeric) AND (amount_wei <= gross_wei))),
    CONSTRAINT payout_batch_of_status CHECK (((settlement_status = ANY (ARRAY['pending'::text, 'void'::text])) = (batch_id IS NULL)))
);
CREATE VIEW ledger_lines AS
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
    (u.balance)::numeric(78,0) AS balance_after_wei,
    (e.reserved)::numeric(78,0) AS reserved_after_wei,
    u.reservation_id,
    NULL::text AS private_job_id,
    ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
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
    LATERAL UNNEST(g.debit_ids, g.debit_seq, g.release_ids, g.release_seq, g.payout_ids, g.node_ids, g.kinds, g.payees, g.charged_wei, g.share_wei, g.released_wei, g.balance_after_wei, g.reserved_after_wei, g.reservation_ids, g.fee_ids, g.fee_wei) WITH ORDINALITY u(debit_id, debit_seq, release_id, release_seq, payout_id, node_id, kind, payee, charged, share, released, balance, reserved, reservation_id, fee_id, fee, place),
    LATERAL ( VALUES (u.debit_id,u.debit_seq,'debit'::text,u.charged,(u.reserved + u.released),u.payout_id,
                CASE
                    WHEN (u.payout_id IS NOT NULL) THEN u.fee_id
                    ELSE NULL::text
                END), (u.release_id,u.release_seq,'release'::text,u.released,u.reserved,NULL::text,NULL::text)) e(entry_id, seq, kind, amount, reserved, payout_id, fee_id)
  WHERE (e.entry_id IS NOT NULL);
CREATE TABLE log_checkpoints (
    origin text NOT NULL,
    size bigint NOT NULL,
    note text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE log_entries (
    entry_index bigint NOT NULL,
    kind text NOT NULL,
    hash text NOT NULL,
    subject text,
    signature_ed25519 text,
    from_seq bigint,
    to_seq bigint,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE log_receipts (
    first_index bigint NOT NULL,
    entries integer NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL
);
CREATE VIEW log_contents AS
 SELECT e.entry_index AS first_index,
    e.entry_index,
    e.kind,
    e.hash
   FROM log_entries e
UNION ALL
 SELECT l.first_index,
    ((l.first_index + row_number() OVER (PARTITION BY l.first_index ORDER BY r.seq)) - 1) AS entry_index,
    'receipt'::text AS kind,
    r.receipt_hash AS hash
   FROM (log_receipts l
     CROSS JOIN LATERAL receipts_within(l.from_seq, l.to_seq) r(seq, receipt_hash));
CREATE TABLE log_cosignatures (
    origin text NOT NULL,
    size bigint NOT NULL,
    witness text NOT NULL,
    line text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE log_forks (
    entry_index bigint NOT NULL,
    lost_note text NOT NULL
);
CREATE TABLE log_state (
    log_id integer NOT NULL,
    origin text NOT NULL,
    size bigint NOT NULL,
    root bytea NOT NULL,
    receipts_to bigint NOT NULL,
    ledger_to bigint NOT NULL,
    heads_at timestamp(3) with time zone,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE log_tiles (
    level integer NOT NULL,
    tile_index bigint NOT NULL,
    hashes bytea NOT NULL
);
CREATE TABLE log_waiting (
    last_seq bigint NOT NULL,
    grouped boolean NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE model_entries (
    model_id text NOT NULL,
    aliases jsonb DEFAULT '[]'::jsonb NOT NULL,
    name text,
    description text,
    input_modalities jsonb,
    output_modalities jsonb,
    context_length integer,
    max_output_length integer,
    prompt_token_price_wei numeric(78,0),
    completion_token_price_wei numeric(78,0),
    usd_prices jsonb,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    revision uuid DEFAULT gen_random_uuid() NOT NULL,
    serves jsonb
);
CREATE TABLE model_profiles (
    profile_id text NOT NULL,
    runtime_id text NOT NULL,
    upstream_model_id text NOT NULL,
    last_measured_at timestamp(3) with time zone,
    ttft_ms double precision,
    tokens_per_second double precision,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    ttft_at timestamp(3) with time zone,
    ttft_count bigint DEFAULT 0 NOT NULL,
    answered jsonb DEFAULT '[]'::jsonb NOT NULL
);
CREATE TABLE node_identities (
    public_key bytea NOT NULL,
    node_id text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE node_nonces (
    node_id text NOT NULL,
    nonce_hash bytea NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE nodes (
    node_id text NOT NULL,
    customer_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    url text,
    api_key_sealed bytea,
    visibility text NOT NULL,
    privacy_class text NOT NULL,
    node_class text NOT NULL,
    payout_address text,
    admin_state text DEFAULT 'active'::text NOT NULL,
    origin text DEFAULT 'operator'::text NOT NULL,
    drain_started_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    identity_key bytea,
    transport_keys jsonb,
    rank integer DEFAULT 0 NOT NULL,
    external boolean DEFAULT false NOT NULL,
    revision uuid DEFAULT gen_random_uuid() NOT NULL,
    serves jsonb,
    payee_stated_at timestamp(3) with time zone,
    alarms jsonb,
    alarms_at timestamp(3) with time zone,
    sealed_keys jsonb
);
CREATE TABLE payee_statements (
    node_id text NOT NULL,
    payee text NOT NULL,
    signed_at timestamp(3) with time zone NOT NULL,
    signature_ed25519 text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE payout_batches (
    batch_id text NOT NULL,
    status text DEFAULT 'created'::text NOT NULL,
    merkle_root text NOT NULL,
    payout_count integer NOT NULL,
    total_amount_wei numeric(78,0) NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    held boolean DEFAULT false NOT NULL,
    last_error text,
    tx_nonce bigint,
    transactions jsonb DEFAULT '[]'::jsonb NOT NULL,
    submitted_tx_hash text,
    settlement_block_number text,
    settlement_block_hash text,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    submitted_at timestamp(3) with time zone,
    finalized_at timestamp(3) with time zone,
    completed_at timestamp(3) with time zone,
    next_attempt_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    lease_until timestamp(3) with time zone,
    lease_id text,
    leaf_version integer DEFAULT 1 NOT NULL,
    CONSTRAINT batch_not_empty CHECK (((payout_count > 0) AND (total_amount_wei > (0)::numeric)))
);
CREATE VIEW payouts AS
 SELECT p.entry_id,
    p.node_id,
    p.receipt_hash,
    p.kind,
    p.private_job_id,
    p.amount_wei,
    p.gross_wei,
    p.held,
    p.settlement_status,
    p.batch_id,
    p.earned_payee,
    p.payee,
    p.settled_at,
    p.created_at,
    p.updated_at,
    p.earned_held,
    NULL::bigint AS group_last_seq
   FROM payout_rows p
UNION ALL
 SELECT s.entry_id,
    s.node_id,
    s.receipt_hash,
    s.kind,
    NULL::text AS private_job_id,
    s.amount_wei,
    s.gross_wei,
    false AS held,
    'pending'::text AS settlement_status,
    NULL::text AS batch_id,
    s.earned_payee,
    s.earned_payee AS payee,
    NULL::timestamp(3) with time zone AS settled_at,
    s.created_at,
    s.created_at AS updated_at,
    false AS earned_held,
    s.group_last_seq
   FROM charge_shares s
  WHERE (NOT s.shares_moved);
CREATE TABLE private_jobs (
    command_id text NOT NULL,
    job_id text NOT NULL,
    sealed_job_id text NOT NULL,
    customer_id text NOT NULL,
    node_id text NOT NULL,
    model_id text NOT NULL,
    upstream_model_id text NOT NULL,
    runtime_id text NOT NULL,
    fingerprint bytea NOT NULL,
    encrypted_request jsonb NOT NULL,
    encrypted_response jsonb,
    status text NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    request_id text NOT NULL,
    error_code text,
    receipt_hash text,
    due_at timestamp(3) with time zone NOT NULL,
    lease_id text,
    deadline_at timestamp(3) with time zone NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    completed_at timestamp(3) with time zone
);
CREATE VIEW protocol_fees AS
 SELECT f.entry_id,
    f.receipt_hash,
    f.private_job_id,
    f.amount_wei,
    f.status,
    f.created_at
   FROM fee_rows f
UNION ALL
 SELECT u.fee_id AS entry_id,
    ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
    NULL::text AS private_job_id,
    (u.fee)::numeric(78,0) AS amount_wei,
    'earned'::text AS status,
    g.created_at
   FROM charge_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.fee_ids, g.fee_wei) WITH ORDINALITY u(fee_id, fee, place)
  WHERE (u.fee_id IS NOT NULL);
CREATE TABLE quota_days (
    customer_id text NOT NULL,
    day date NOT NULL,
    taken bigint DEFAULT 0 NOT NULL
);
CREATE TABLE quota_leases (
    customer_id text NOT NULL,
    day date NOT NULL,
    cap bigint NOT NULL,
    spent bigint NOT NULL,
    lease_id text NOT NULL,
    seq bigint NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE UNLOGGED TABLE rate_buckets (
    key text NOT NULL,
    level double precision NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE UNLOGGED TABLE rate_leases (
    key text NOT NULL,
    cap bigint NOT NULL,
    spent bigint NOT NULL,
    lease_id text NOT NULL,
    seq bigint NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE TABLE receipt_groups (
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    rows integer NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    first_hash bytea NOT NULL,
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
    mac text,
    CONSTRAINT receipt_groups_close CHECK (((last_seq - first_seq) < 100000)),
    CONSTRAINT receipt_groups_whole CHECK (((rows > 0) AND (cardinality(seq) = rows) AND (octet_length(hashes) = (32 * rows)) AND (seq[1] = first_seq) AND (seq[rows] = last_seq) AND (first_hash = SUBSTRING(hashes FROM 1 FOR 32))))
);
ALTER TABLE receipt_groups ALTER COLUMN seq SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN seq SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN hashes SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN hashes SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN shared SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN shared SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN customer_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN customer_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN signature_ed25519 SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN signature_ed25519 SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN issuer SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN issuer SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN request_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN request_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN job_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN job_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN kind SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN kind SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN node_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN node_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN node_class SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN node_class SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN runtime_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN runtime_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN runtime_kind SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN runtime_kind SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN model_id SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN model_id SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN prompt_tokens SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN prompt_tokens SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN completion_tokens SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN completion_tokens SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN started_ms SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN started_ms SET STORAGE EXTERNAL;
ALTER TABLE receipt_groups ALTER COLUMN completed_ms SET STATISTICS 0;
ALTER TABLE receipt_groups ALTER COLUMN completed_ms SET STORAGE EXTERNAL;
CREATE TABLE receipt_place_runs (
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    level smallint NOT NULL
);
CREATE TABLE receipt_places (
    hash_start bytea,
    last_seq bigint,
    place smallint
)
PARTITION BY RANGE (last_seq);
CREATE TABLE receipt_rows (
    receipt_hash text NOT NULL,
    issuer text NOT NULL,
    request_id text NOT NULL,
    job_id text,
    kind text NOT NULL,
    node_id text NOT NULL,
    node_class text NOT NULL,
    runtime_id text NOT NULL,
    runtime_kind text NOT NULL,
    model_id text NOT NULL,
    prompt_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    started_at timestamp(3) with time zone NOT NULL,
    completed_at timestamp(3) with time zone NOT NULL,
    customer_id text NOT NULL,
    status text DEFAULT 'accepted'::text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    signature_ed25519 text,
    billed boolean DEFAULT false NOT NULL,
    batch_id text,
    seq bigint NOT NULL,
    client_nonce text,
    request_commitment text,
    response_commitment text,
    upstream_model_commitment text,
    node_receipt text,
    mac text
);
CREATE VIEW receipts AS
 SELECT r.receipt_hash,
    r.seq,
    r.issuer,
    r.request_id,
    r.job_id,
    r.kind,
    r.node_id,
    r.node_class,
    r.runtime_id,
    r.runtime_kind,
    r.model_id,
    r.prompt_tokens,
    r.completion_tokens,
    r.started_at,
    r.completed_at,
    r.client_nonce,
    r.request_commitment,
    r.response_commitment,
    r.upstream_model_commitment,
    r.customer_id,
    r.signature_ed25519,
    r.node_receipt,
    r.status,
    r.billed,
    r.batch_id,
    r.created_at,
    r.seq AS group_first_seq,
    r.seq AS group_last_seq
   FROM receipt_rows r
UNION ALL
 SELECT ('0x'::text || encode(SUBSTRING(h.hashes FROM ((32 * (u.place)::integer) - 31) FOR 32), 'hex'::text)) AS receipt_hash,
    u.seq,
    COALESCE(u.issuer, g.shared[3]) AS issuer,
    COALESCE(u.request_id, g.shared[4]) AS request_id,
    COALESCE(u.job_id, g.shared[5]) AS job_id,
    COALESCE(u.kind, g.shared[6]) AS kind,
    COALESCE(u.node_id, g.shared[7]) AS node_id,
    COALESCE(u.node_class, g.shared[8]) AS node_class,
    COALESCE(u.runtime_id, g.shared[9]) AS runtime_id,
    COALESCE(u.runtime_kind, g.shared[10]) AS runtime_kind,
    COALESCE(u.model_id, g.shared[11]) AS model_id,
    COALESCE(u.prompt_tokens, (g.shared[12])::integer) AS prompt_tokens,
    COALESCE(u.completion_tokens, (g.shared[13])::integer) AS completion_tokens,
    (('1970-01-01 00:00:00+00'::timestamp with time zone + ((COALESCE(u.started_ms, (g.shared[14])::bigint))::double precision * '00:00:00.001'::interval)))::timestamp(3) with time zone AS started_at,
    (('1970-01-01 00:00:00+00'::timestamp with time zone + ((COALESCE(u.completed_ms, (g.shared[15])::bigint))::double precision * '00:00:00.001'::interval)))::timestamp(3) with time zone AS completed_at,
    NULL::text AS client_nonce,
    NULL::text AS request_commitment,
    NULL::text AS response_commitment,
    NULL::text AS upstream_model_commitment,
    COALESCE(u.customer_id, g.shared[1]) AS customer_id,
    COALESCE(u.signature_ed25519, g.shared[2]) AS signature_ed25519,
    NULL::text AS node_receipt,
    'accepted'::text AS status,
    false AS billed,
    NULL::text AS batch_id,
    g.created_at,
    g.first_seq AS group_first_seq,
    g.last_seq AS group_last_seq
   FROM receipt_groups g,
    LATERAL ( SELECT (g.hashes || '\x'::bytea) AS hashes
         OFFSET 0) h,
    LATERAL UNNEST(g.seq, g.customer_id, g.signature_ed25519, g.issuer, g.request_id, g.job_id, g.kind, g.node_id, g.node_class, g.runtime_id, g.runtime_kind, g.model_id, g.prompt_tokens, g.completion_tokens, g.started_ms, g.completed_ms) WITH ORDINALITY u(seq, customer_id, signature_ed25519, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_ms, completed_ms, place);
ALTER TABLE receipt_rows ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME receipts_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE request_groups (
    minute timestamp(3) with time zone NOT NULL,
    group_id text NOT NULL,
    oldest timestamp(3) with time zone NOT NULL,
    newest timestamp(3) with time zone NOT NULL,
    rows integer NOT NULL,
    names text[] NOT NULL,
    ttft_most integer,
    shared text[] NOT NULL,
    request_id text[] NOT NULL,
    at_ms integer[] NOT NULL,
    customer_id text[],
    key_id text[],
    operation text[],
    stream boolean[],
    model text[],
    node_id text[],
    tries smallint[],
    queue_ms integer[],
    load_ms integer[],
    sent_ms integer[],
    ttft_ms integer[],
    duration_ms integer[],
    prompt_tokens integer[],
    completion_tokens integer[],
    cache_percent smallint[],
    status smallint[],
    code text[],
    cost_wei numeric[],
    receipt_hash text[],
    failed_tries jsonb[]
)
PARTITION BY RANGE (minute);
ALTER TABLE request_groups ALTER COLUMN request_id SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN at_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN customer_id SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN key_id SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN operation SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN stream SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN model SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN node_id SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN tries SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN queue_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN load_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN sent_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN ttft_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN duration_ms SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN prompt_tokens SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN completion_tokens SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN cache_percent SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN status SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN code SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN cost_wei SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN receipt_hash SET STORAGE EXTERNAL;
ALTER TABLE request_groups ALTER COLUMN failed_tries SET STORAGE EXTERNAL;
CREATE VIEW request_records AS
 SELECT g.minute AS group_minute,
    g.oldest AS group_oldest,
    g.newest AS group_newest,
    u.request_id,
    ((g.minute + ((u.at_ms)::double precision * '00:00:00.001'::interval)))::timestamp(3) with time zone AS at,
    COALESCE(u.customer_id, g.shared[3]) AS customer_id,
    COALESCE(u.key_id, g.shared[4]) AS key_id,
    COALESCE(u.operation, g.shared[5]) AS operation,
    COALESCE(u.stream, (g.shared[6])::boolean) AS stream,
    COALESCE(u.model, g.shared[7]) AS model,
    COALESCE(u.node_id, g.shared[8]) AS node_id,
    COALESCE(u.tries, (g.shared[9])::smallint) AS tries,
    COALESCE(u.queue_ms, (g.shared[10])::integer) AS queue_ms,
    COALESCE(u.load_ms, (g.shared[11])::integer) AS load_ms,
    COALESCE(u.sent_ms, (g.shared[12])::integer) AS sent_ms,
    COALESCE(u.ttft_ms, (g.shared[13])::integer) AS ttft_ms,
    COALESCE(u.duration_ms, (g.shared[14])::integer) AS duration_ms,
    COALESCE(u.prompt_tokens, (g.shared[15])::integer) AS prompt_tokens,
    COALESCE(u.completion_tokens, (g.shared[16])::integer) AS completion_tokens,
    COALESCE(u.cache_percent, (g.shared[17])::smallint) AS cache_percent,
    COALESCE(u.status, (g.shared[18])::smallint) AS status,
    COALESCE(u.code, g.shared[19]) AS code,
    COALESCE(u.cost_wei, (g.shared[20])::numeric) AS cost_wei,
    COALESCE(u.receipt_hash, g.shared[21]) AS receipt_hash,
    COALESCE(u.failed_tries, (g.shared[22])::jsonb) AS failed_tries
   FROM request_groups g,
    LATERAL UNNEST(g.request_id, g.at_ms, g.customer_id, g.key_id, g.operation, g.stream, g.model, g.node_id, g.tries, g.queue_ms, g.load_ms, g.sent_ms, g.ttft_ms, g.duration_ms, g.prompt_tokens, g.completion_tokens, g.cache_percent, g.status, g.code, g.cost_wei, g.receipt_hash, g.failed_tries) u(request_id, at_ms, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms, sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash, failed_tries);
CREATE TABLE request_sums (
    span_seconds integer NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    requests integer NOT NULL,
    failed integer NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    buckets smallint[] NOT NULL,
    ttft_counts integer[] NOT NULL,
    duration_counts integer[] NOT NULL
);
CREATE TABLE request_sums_late (
    at timestamp(3) with time zone NOT NULL
);
CREATE TABLE reservations (
    reservation_id text NOT NULL,
    customer_id text NOT NULL,
    amount_wei numeric(78,0) NOT NULL,
    status text DEFAULT 'open'::text NOT NULL,
    settled_wei numeric(78,0),
    receipt_hash text,
    private_job_id text,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    closed_at timestamp(3) with time zone,
    CONSTRAINT reservation_amount_positive CHECK ((amount_wei > (0)::numeric)),
    CONSTRAINT reservation_closed_once CHECK (((status = 'open'::text) = (settled_wei IS NULL))),
    CONSTRAINT reservation_settled_within CHECK ((((0)::numeric <= settled_wei) AND (settled_wei <= amount_wei)))
);
CREATE TABLE retired_webhook_secrets (
    customer_id text NOT NULL,
    secret_sealed bytea NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE TABLE runtimes (
    runtime_id text NOT NULL,
    node_id text NOT NULL,
    label text DEFAULT ''::text NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE UNLOGGED TABLE slot_leases (
    customer_id text NOT NULL,
    cap integer NOT NULL,
    spent integer NOT NULL,
    lease_id text NOT NULL,
    seq bigint NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
);
CREATE SEQUENCE tunnel_epochs
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE tunnel_owners (
    node_id text NOT NULL,
    replica_id text NOT NULL,
    peer_url text,
    epoch bigint DEFAULT nextval('tunnel_epochs'::regclass) NOT NULL,
    lease_until timestamp(3) with time zone NOT NULL
);
CREATE TABLE webhook_deliveries (
    webhook_id text NOT NULL,
    command_id text NOT NULL,
    job_id text NOT NULL,
    customer_id text NOT NULL,
    url text NOT NULL,
    status text,
    body text,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    due_at timestamp(3) with time zone,
    lease_id text,
    last_attempt_at timestamp(3) with time zone,
    delivered_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
ALTER TABLE admin_access_events
    ADD CONSTRAINT admin_access_events_pkey PRIMARY KEY (created_at, event_id);
ALTER TABLE admin_approval_events
    ADD CONSTRAINT admin_approval_events_pkey PRIMARY KEY (created_at, event_id);
ALTER TABLE admin_command_events
    ADD CONSTRAINT admin_command_events_pkey PRIMARY KEY (created_at, event_id);
ALTER TABLE admin_tokens
    ADD CONSTRAINT admin_tokens_pkey PRIMARY KEY (token_hash);
ALTER TABLE audit_chains
    ADD CONSTRAINT audit_chains_ordinal_unique UNIQUE (ordinal);
ALTER TABLE audit_chains
    ADD CONSTRAINT audit_chains_pkey PRIMARY KEY (writer_id);
ALTER TABLE audit_purge_runs
    ADD CONSTRAINT audit_purge_runs_pkey PRIMARY KEY (run_id);
ALTER TABLE audit_tombstones
    ADD CONSTRAINT audit_tombstones_writer_id_seq_pk PRIMARY KEY (writer_id, seq);
ALTER TABLE charge_groups
    ADD CONSTRAINT charge_groups_group_id_key UNIQUE (group_id);
ALTER TABLE charge_groups
    ADD CONSTRAINT charge_groups_pkey PRIMARY KEY (last_seq);
ALTER TABLE charge_groups
    ADD CONSTRAINT charge_groups_whole CHECK (charge_group_adds_up(charge_groups.*));
ALTER TABLE customers
    ADD CONSTRAINT customers_pkey PRIMARY KEY (customer_id);
ALTER TABLE customers
    ADD CONSTRAINT "customers_tokenHash_unique" UNIQUE (token_hash);
ALTER TABLE directory_versions
    ADD CONSTRAINT directory_versions_pkey PRIMARY KEY (topic);
ALTER TABLE enrollment_tokens
    ADD CONSTRAINT enrollment_tokens_pkey PRIMARY KEY (token_id);
ALTER TABLE enrollment_tokens
    ADD CONSTRAINT "enrollment_tokens_tokenHash_unique" UNIQUE (token_hash);
ALTER TABLE envelope_replays
    ADD CONSTRAINT envelope_replays_node_id_public_key_hash_pk PRIMARY KEY (node_id, public_key_hash);
ALTER TABLE gateway_keys
    ADD CONSTRAINT "gateway_keys_keyHash_unique" UNIQUE (key_hash);
ALTER TABLE gateway_keys
    ADD CONSTRAINT gateway_keys_pkey PRIMARY KEY (key_id);
ALTER TABLE idempotency_keys
    ADD CONSTRAINT idempotency_keys_customer_id_key_hash_pk PRIMARY KEY (customer_id, key_hash);
ALTER TABLE known_models
    ADD CONSTRAINT known_models_pkey PRIMARY KEY (model_id);
ALTER TABLE ledger_rows
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (entry_id);
ALTER TABLE log_checkpoints
    ADD CONSTRAINT log_checkpoints_origin_size_pk PRIMARY KEY (origin, size);
ALTER TABLE log_cosignatures
    ADD CONSTRAINT log_cosignatures_origin_size_witness_pk PRIMARY KEY (origin, size, witness);
ALTER TABLE log_entries
    ADD CONSTRAINT log_entries_pkey PRIMARY KEY (entry_index);
ALTER TABLE log_forks
    ADD CONSTRAINT log_forks_pkey PRIMARY KEY (entry_index);
ALTER TABLE log_receipts
    ADD CONSTRAINT log_receipts_pkey PRIMARY KEY (first_index);
ALTER TABLE log_state
    ADD CONSTRAINT log_state_pkey PRIMARY KEY (log_id);
ALTER TABLE log_tiles
    ADD CONSTRAINT log_tiles_level_tile_index_pk PRIMARY KEY (level, tile_index);
ALTER TABLE log_waiting
    ADD CONSTRAINT log_waiting_last_seq_grouped_pk PRIMARY KEY (last_seq, grouped);
ALTER TABLE model_entries
    ADD CONSTRAINT model_entries_pkey PRIMARY KEY (model_id);
ALTER TABLE model_profiles
    ADD CONSTRAINT model_profiles_pkey PRIMARY KEY (profile_id);
ALTER TABLE model_profiles
    ADD CONSTRAINT "model_profiles_runtimeId_upstreamModelId_unique" UNIQUE (runtime_id, upstream_model_id);
ALTER TABLE node_identities
    ADD CONSTRAINT node_identities_pkey PRIMARY KEY (public_key);
ALTER TABLE node_nonces
    ADD CONSTRAINT node_nonces_node_id_nonce_hash_pk PRIMARY KEY (node_id, nonce_hash);
ALTER TABLE nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node_id);
ALTER TABLE payee_statements
    ADD CONSTRAINT payee_statements_node_id_signed_at_pk PRIMARY KEY (node_id, signed_at);
ALTER TABLE payout_batches
    ADD CONSTRAINT payout_batches_pkey PRIMARY KEY (batch_id);
ALTER TABLE payout_rows
    ADD CONSTRAINT payouts_pkey PRIMARY KEY (entry_id);
ALTER TABLE payout_rows
    ADD CONSTRAINT "payouts_receiptHash_unique" UNIQUE (receipt_hash);
ALTER TABLE private_jobs
    ADD CONSTRAINT "private_jobs_customerId_fingerprint_unique" UNIQUE (customer_id, fingerprint);
ALTER TABLE private_jobs
    ADD CONSTRAINT "private_jobs_customerId_jobId_unique" UNIQUE (customer_id, job_id);
ALTER TABLE private_jobs
    ADD CONSTRAINT private_jobs_pkey PRIMARY KEY (command_id);
ALTER TABLE fee_rows
    ADD CONSTRAINT protocol_fees_pkey PRIMARY KEY (entry_id);
ALTER TABLE quota_days
    ADD CONSTRAINT quota_days_customer_id_day_pk PRIMARY KEY (customer_id, day);
ALTER TABLE quota_leases
    ADD CONSTRAINT quota_leases_customer_id_day_lease_id_pk PRIMARY KEY (customer_id, day, lease_id);
ALTER TABLE rate_buckets
    ADD CONSTRAINT rate_buckets_pkey PRIMARY KEY (key);
ALTER TABLE rate_leases
    ADD CONSTRAINT rate_leases_key_lease_id_pk PRIMARY KEY (key, lease_id);
ALTER TABLE receipt_groups
    ADD CONSTRAINT receipt_groups_first_hash_key UNIQUE (first_hash);
ALTER TABLE receipt_groups
    ADD CONSTRAINT receipt_groups_pkey PRIMARY KEY (last_seq);
ALTER TABLE receipt_place_runs
    ADD CONSTRAINT receipt_place_runs_pkey PRIMARY KEY (to_seq);
ALTER TABLE receipt_rows
    ADD CONSTRAINT receipts_pkey PRIMARY KEY (receipt_hash);
ALTER TABLE request_groups
    ADD CONSTRAINT request_groups_pkey PRIMARY KEY (group_id, minute);
ALTER TABLE request_sums
    ADD CONSTRAINT request_sums_pkey PRIMARY KEY (span_seconds, at, kind, name);
ALTER TABLE reservations
    ADD CONSTRAINT reservations_pkey PRIMARY KEY (reservation_id);
ALTER TABLE runtimes
    ADD CONSTRAINT "runtimes_nodeId_label_unique" UNIQUE (node_id, label);
ALTER TABLE runtimes
    ADD CONSTRAINT runtimes_pkey PRIMARY KEY (runtime_id);
ALTER TABLE slot_leases
    ADD CONSTRAINT slot_leases_customer_id_lease_id_pk PRIMARY KEY (customer_id, lease_id);
ALTER TABLE tunnel_owners
    ADD CONSTRAINT tunnel_owners_pkey PRIMARY KEY (node_id);
ALTER TABLE webhook_deliveries
    ADD CONSTRAINT "webhook_deliveries_commandId_unique" UNIQUE (command_id);
ALTER TABLE webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (webhook_id);
CREATE INDEX admin_access_events_method ON admin_access_events USING btree (method);
CREATE INDEX admin_access_events_path ON admin_access_events USING btree (path_template, method, status_code, actor_role);
CREATE INDEX admin_access_events_role ON admin_access_events USING btree (actor_role, method);
CREATE INDEX admin_access_events_status ON admin_access_events USING btree (status_code, actor_role, method);
CREATE INDEX admin_approval_events_action ON admin_approval_events USING btree (action);
CREATE INDEX admin_approval_events_chain ON admin_approval_events USING btree (writer_id, seq);
CREATE INDEX admin_approval_events_target ON admin_approval_events USING btree (target_id);
CREATE INDEX admin_command_events_action ON admin_command_events USING btree (action);
CREATE INDEX admin_command_events_chain ON admin_command_events USING btree (writer_id, seq);
CREATE INDEX admin_command_events_command ON admin_command_events USING btree (command_id);
CREATE INDEX charge_groups_created_index ON charge_groups USING btree (created_at);
CREATE INDEX charge_groups_customer_index ON charge_groups USING btree (customer_id, last_seq);
CREATE INDEX charge_groups_unmoved_index ON charge_groups USING btree (last_seq) WHERE (NOT shares_moved);
CREATE INDEX enrollment_tokens_customer_id_index ON enrollment_tokens USING btree (customer_id);
CREATE INDEX envelope_replays_created_at_index ON envelope_replays USING btree (created_at);
CREATE INDEX gateway_keys_customer_id_index ON gateway_keys USING btree (customer_id);
CREATE INDEX idempotency_keys_expires_at_index ON idempotency_keys USING btree (expires_at);
CREATE INDEX ledger_entries_created_at_index ON ledger_rows USING btree (created_at) WHERE (kind = 'debit'::text);
CREATE INDEX ledger_entries_customer_id_created_at_seq_index ON ledger_rows USING btree (customer_id, created_at, seq);
CREATE INDEX ledger_entries_decided ON ledger_rows USING btree (kind, seq) WHERE (kind <> ALL (ARRAY['reserve'::text, 'release'::text, 'debit'::text]));
CREATE UNIQUE INDEX ledger_entries_refund ON ledger_rows USING btree (receipt_hash) WHERE (kind = 'refund'::text);
CREATE UNIQUE INDEX ledger_entries_reservation_id_kind_index ON ledger_rows USING btree (reservation_id, kind);
CREATE UNIQUE INDEX ledger_entries_seq_index ON ledger_rows USING btree (seq);
CREATE INDEX log_checkpoints_size_index ON log_checkpoints USING btree (size);
CREATE INDEX log_cosignatures_size_index ON log_cosignatures USING btree (size);
CREATE UNIQUE INDEX log_entries_hash_index ON log_entries USING btree (hash);
CREATE INDEX log_entries_subject ON log_entries USING btree (kind, subject) WHERE (subject IS NOT NULL);
CREATE UNIQUE INDEX log_receipts_to_seq_index ON log_receipts USING btree (to_seq);
CREATE INDEX node_nonces_expires_at_index ON node_nonces USING btree (expires_at);
CREATE INDEX nodes_customer_id_index ON nodes USING btree (customer_id);
CREATE INDEX payout_batches_created_at_index ON payout_batches USING btree (created_at);
CREATE INDEX payout_batches_next_attempt_at_index ON payout_batches USING btree (next_attempt_at) WHERE (status <> 'completed'::text);
CREATE INDEX payouts_batch_id_index ON payout_rows USING btree (batch_id) WHERE (batch_id IS NOT NULL);
CREATE INDEX payouts_created_at_index ON payout_rows USING btree (created_at) WHERE ((settlement_status = 'pending'::text) AND (NOT held));
CREATE INDEX payouts_node_id_created_at_index ON payout_rows USING btree (node_id, created_at);
CREATE INDEX private_jobs_deadline ON private_jobs USING btree (deadline_at) WHERE (completed_at IS NULL);
CREATE INDEX private_jobs_due ON private_jobs USING btree (node_id, due_at) WHERE (completed_at IS NULL);
CREATE INDEX private_jobs_ended ON private_jobs USING btree (completed_at) WHERE (completed_at IS NOT NULL);
CREATE INDEX private_jobs_open ON private_jobs USING btree (customer_id) WHERE (completed_at IS NULL);
CREATE INDEX private_jobs_recent ON private_jobs USING btree (created_at);
CREATE INDEX protocol_fees_created_at_index ON fee_rows USING btree (created_at);
CREATE INDEX receipts_billed_index ON receipt_rows USING btree (created_at) WHERE billed;
CREATE UNIQUE INDEX receipts_seq_index ON receipt_rows USING btree (seq);
CREATE INDEX request_groups_names ON request_groups USING gin (names) WITH (gin_pending_list_limit='256');
CREATE INDEX request_groups_newest ON request_groups USING btree (newest);
CREATE INDEX request_groups_ttft ON request_groups USING btree (ttft_most) WHERE (ttft_most IS NOT NULL);
CREATE INDEX reservations_expires_at_index ON reservations USING btree (expires_at) WHERE (status = 'open'::text);
CREATE INDEX retired_webhook_secrets_customer_id_index ON retired_webhook_secrets USING btree (customer_id);
CREATE INDEX retired_webhook_secrets_expires_at_index ON retired_webhook_secrets USING btree (expires_at);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX webhook_deliveries_recent ON webhook_deliveries USING btree (created_at);
CREATE TRIGGER admin_tokens_changed AFTER INSERT OR DELETE OR UPDATE ON admin_tokens FOR EACH ROW EXECUTE FUNCTION directory_changed('admin_tokens');
CREATE TRIGGER charge_groups_append_only BEFORE DELETE OR UPDATE OF last_seq, first_seq, group_id, customer_id, rows, created_at, charged_total, shares_total, fees_total, debit_seq, release_seq, reservation_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei, released_wei, balance_after_wei, reserved_after_wei, hashes ON charge_groups FOR EACH ROW EXECUTE FUNCTION charge_group_is_kept();
CREATE TRIGGER charge_groups_moved_once BEFORE UPDATE OF shares_moved ON charge_groups FOR EACH ROW WHEN ((old.shares_moved OR (NOT new.shares_moved))) EXECUTE FUNCTION charge_group_is_kept();
CREATE TRIGGER charge_groups_no_truncate BEFORE TRUNCATE ON charge_groups FOR EACH STATEMENT EXECUTE FUNCTION charge_group_is_kept();
CREATE TRIGGER customers_added AFTER INSERT OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION directory_changed('customers');
CREATE TRIGGER customers_changed AFTER UPDATE ON customers FOR EACH ROW WHEN (((((old.account_status IS DISTINCT FROM new.account_status) OR (old.gateway_policy IS DISTINCT FROM new.gateway_policy)) OR (old.token_hash IS DISTINCT FROM new.token_hash)) OR (old.display_name IS DISTINCT FROM new.display_name))) EXECUTE FUNCTION directory_changed('customers');
CREATE TRIGGER customers_revised BEFORE UPDATE OF display_name, account_status, gateway_policy ON customers FOR EACH ROW WHEN ((((old.display_name IS DISTINCT FROM new.display_name) OR (old.account_status IS DISTINCT FROM new.account_status)) OR (old.gateway_policy IS DISTINCT FROM new.gateway_policy))) EXECUTE FUNCTION row_revised();
CREATE TRIGGER fee_change INSTEAD OF INSERT OR UPDATE ON protocol_fees FOR EACH ROW EXECUTE FUNCTION fee_change();
CREATE TRIGGER gateway_keys_added AFTER INSERT OR DELETE ON gateway_keys FOR EACH ROW EXECUTE FUNCTION directory_changed('gateway_keys');
CREATE TRIGGER gateway_keys_changed AFTER UPDATE ON gateway_keys FOR EACH ROW WHEN ((((((((old.customer_id IS DISTINCT FROM new.customer_id) OR (old.key_hash IS DISTINCT FROM new.key_hash)) OR (old.name IS DISTINCT FROM new.name)) OR (old.node_scope IS DISTINCT FROM new.node_scope)) OR (old.model_policy IS DISTINCT FROM new.model_policy)) OR (old.expires_at IS DISTINCT FROM new.expires_at)) OR (old.revoked_at IS DISTINCT FROM new.revoked_at))) EXECUTE FUNCTION directory_changed('gateway_keys');
CREATE TRIGGER ledger_entries_append_only BEFORE DELETE OR UPDATE ON ledger_rows FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_rows FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_entry_insert INSTEAD OF INSERT OR DELETE OR UPDATE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entry_insert();
CREATE TRIGGER model_entries_changed AFTER INSERT OR DELETE OR UPDATE ON model_entries FOR EACH ROW EXECUTE FUNCTION directory_changed('model_entries');
CREATE TRIGGER model_entries_revised BEFORE UPDATE OF aliases, name, description, input_modalities, output_modalities, serves, context_length, max_output_length, prompt_token_price_wei, completion_token_price_wei, usd_prices ON model_entries FOR EACH ROW WHEN ((((((((((((old.aliases IS DISTINCT FROM new.aliases) OR (old.name IS DISTINCT FROM new.name)) OR (old.description IS DISTINCT FROM new.description)) OR (old.input_modalities IS DISTINCT FROM new.input_modalities)) OR (old.output_modalities IS DISTINCT FROM new.output_modalities)) OR (old.serves IS DISTINCT FROM new.serves)) OR (old.context_length IS DISTINCT FROM new.context_length)) OR (old.max_output_length IS DISTINCT FROM new.max_output_length)) OR (old.prompt_token_price_wei IS DISTINCT FROM new.prompt_token_price_wei)) OR (old.completion_token_price_wei IS DISTINCT FROM new.completion_token_price_wei)) OR (old.usd_prices IS DISTINCT FROM new.usd_prices))) EXECUTE FUNCTION row_revised();
CREATE TRIGGER nodes_changed AFTER INSERT OR DELETE OR UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION directory_changed('nodes');
CREATE TRIGGER nodes_revised BEFORE UPDATE OF name, url, api_key_sealed, visibility, node_class, privacy_class, rank, external, payout_address, serves ON nodes FOR EACH ROW WHEN (((((((((((old.name IS DISTINCT FROM new.name) OR (old.url IS DISTINCT FROM new.url)) OR (old.api_key_sealed IS DISTINCT FROM new.api_key_sealed)) OR (old.visibility IS DISTINCT FROM new.visibility)) OR (old.node_class IS DISTINCT FROM new.node_class)) OR (old.privacy_class IS DISTINCT FROM new.privacy_class)) OR (old.rank IS DISTINCT FROM new.rank)) OR (old.external IS DISTINCT FROM new.external)) OR (old.payout_address IS DISTINCT FROM new.payout_address)) OR (old.serves IS DISTINCT FROM new.serves))) EXECUTE FUNCTION row_revised();
CREATE TRIGGER payout_change INSTEAD OF UPDATE ON payouts FOR EACH ROW EXECUTE FUNCTION payout_change();
CREATE TRIGGER receipt_row_change INSTEAD OF INSERT OR DELETE OR UPDATE ON receipts FOR EACH ROW EXECUTE FUNCTION receipt_row_change();
CREATE TRIGGER request_record_insert INSTEAD OF INSERT ON request_records FOR EACH ROW EXECUTE FUNCTION request_record_insert();
CREATE TRIGGER tunnel_owners_added AFTER INSERT OR DELETE ON tunnel_owners FOR EACH ROW EXECUTE FUNCTION directory_changed('tunnel_owners');
CREATE TRIGGER tunnel_owners_changed AFTER UPDATE ON tunnel_owners FOR EACH ROW WHEN ((old.epoch IS DISTINCT FROM new.epoch)) EXECUTE FUNCTION directory_changed('tunnel_owners');
ALTER TABLE charge_groups
    ADD CONSTRAINT charge_groups_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE enrollment_tokens
    ADD CONSTRAINT enrollment_tokens_customer_id_customers_customer_id_fk FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE gateway_keys
    ADD CONSTRAINT gateway_keys_customer_id_customers_customer_id_fk FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE ledger_rows
    ADD CONSTRAINT ledger_rows_customer_id_customers_customer_id_fk FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE model_profiles
    ADD CONSTRAINT model_profiles_runtime_id_runtimes_runtime_id_fk FOREIGN KEY (runtime_id) REFERENCES runtimes(runtime_id) ON DELETE CASCADE;
ALTER TABLE nodes
    ADD CONSTRAINT nodes_customer_id_customers_customer_id_fk FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE reservations
    ADD CONSTRAINT reservations_customer_id_customers_customer_id_fk FOREIGN KEY (customer_id) REFERENCES customers(customer_id);
ALTER TABLE runtimes
    ADD CONSTRAINT runtimes_node_id_nodes_node_id_fk FOREIGN KEY (node_id) REFERENCES nodes(node_id) ON DELETE CASCADE;
SET LOCAL check_function_bodies = on;
INSERT INTO directory_versions (topic, version)
VALUES ('customers', 1), ('gateway_keys', 1), ('nodes', 1), ('model_entries', 1), ('admin_tokens', 1), ('tunnel_owners', 1);
SELECT audit_ensure_partitions(now() - interval '7 days', now() + interval '28 days');
