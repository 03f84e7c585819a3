CREATE TABLE "deleted_nodes" (
	"node_id" text PRIMARY KEY NOT NULL,
	"customer_id" text NOT NULL,
	"payout_address" text,
	"former_payees" jsonb,
	"deleted_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
-- Keeps whose a deleted node was and where its shares go, whichever version of a gateway deletes it (docs/decisions/0069). Who has written a
-- node back by hand can delete it again.
CREATE OR REPLACE FUNCTION node_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO deleted_nodes (node_id, customer_id, payout_address, former_payees, deleted_at)
    VALUES (OLD.node_id, OLD.customer_id, OLD.payout_address, OLD.former_payees, now())
    ON CONFLICT (node_id) DO UPDATE SET customer_id = excluded.customer_id, payout_address = excluded.payout_address,
      former_payees = excluded.former_payees, deleted_at = excluded.deleted_at;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER nodes_deleted AFTER DELETE ON nodes FOR EACH ROW WHEN (old.payout_address IS NOT NULL OR old.former_payees IS NOT NULL) EXECUTE FUNCTION node_deleted();
--> statement-breakpoint
-- The same of a node that is not there any more (docs/decisions/0069). NULL also where it never had an address.
CREATE OR REPLACE FUNCTION payee_of_deleted(p_worked_for text, p_node text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT payee_of(p_worked_for, d.customer_id, d.payout_address, d.former_payees) FROM deleted_nodes d WHERE d.node_id = p_node;
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
-- Customers are locked first, in the order of their ids, and then leases. Numbers are drawn behind those locks. Before them come the locks by
-- which the log knows who may still commit a smaller number: of the tables alone once receipts stand in groups, an hour after an upgrade
-- (docs/decisions/0063). Gateways of versions before look at the views, whose locks cost as much as a small statement.
--
-- A statement costs 40 to 80 µs to begin, as much as two charges (docs/decisions/0058). So there is one for all leases where there can be, and
-- charges of one lease that were never sent look at nothing before they change it: where it does not have what they need, the change is
-- taken back. Arrays are stored as they came: taking them apart and putting them together again was half of what a charge cost (26 of 58 µs).
-- p_nodes: one for each charge, or one for all; p_owners: for whom they worked, as many. Gateways of the version before do not say it.
CREATE OR REPLACE FUNCTION leased_charges_write(p_call bigint, p_sent text[], p_leases text[], p_customers text[], p_counts int[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ttl_ms bigint, p_ids text[], p_reserved_at bigint[],
  p_charged numeric[], p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_receipts json, p_grouped bytea,
  p_shared text[], c text[], p_mac text, p_owners text[] DEFAULT NULL)
RETURNS TABLE (place int, outcome text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now timestamptz; v_rows int; v_ids int; v_balance numeric; v_reserved numeric; v_balances numeric[]; v_reserves numeric[];
  v_payees text[]; v_seq bigint[]; v_reserve_seq bigint[]; v_debit_seq bigint[]; v_release_seq bigint[];
BEGIN
  IF p_mac IS NULL OR p_receipts IS NOT NULL THEN
    LOCK TABLE ledger_entries, receipts IN ROW EXCLUSIVE MODE;
  ELSE
    LOCK TABLE charge_groups, receipt_groups IN ROW EXCLUSIVE MODE;
  END IF;
  IF cardinality(p_leases) = 1 AND cardinality(p_sent) = 0 THEN
    UPDATE customers c SET balance_wei = c.balance_wei - p_charged_sums[1], leased_wei = c.leased_wei - p_charged_sums[1]
      WHERE c.customer_id = p_customers[1] AND c.leased_wei >= p_charged_sums[1]
      RETURNING c.balance_wei + p_charged_sums[1], c.reserved_wei INTO v_balance, v_reserved;
    IF FOUND THEN
      UPDATE money_leases l SET left_wei = l.left_wei - p_charged_sums[1], calls = p_call,
          ends_at = greatest(l.ends_at, clock_timestamp() + p_ttl_ms * interval '1 ms')
        WHERE l.lease_id = p_leases[1] AND l.customer_id = p_customers[1] AND l.calls < p_call AND l.left_wei >= p_charged_sums[1];
      IF FOUND THEN
        v_balances := ARRAY[v_balance];
        v_reserves := ARRAY[v_reserved];
      ELSE
        UPDATE customers c SET balance_wei = c.balance_wei + p_charged_sums[1], leased_wei = c.leased_wei + p_charged_sums[1]
          WHERE c.customer_id = p_customers[1];
      END IF;
    END IF;
  END IF;
  IF v_balances IS NULL THEN
    RETURN QUERY SELECT r.place, r.outcome
      FROM leased_charges_refused(p_call, p_sent, p_leases, p_customers, p_counts, p_charged_sums, p_debits) r;
    IF FOUND THEN RETURN; END IF;
    -- A customer may have several leases: of each the balance before its charges.
    WITH c AS (
      UPDATE customers c SET balance_wei = c.balance_wei - q.wei, leased_wei = c.leased_wei - q.wei
        FROM (SELECT q.customer, sum(q.charged) AS wei FROM unnest(p_customers, p_charged_sums) AS q (customer, charged) GROUP BY 1) q
        WHERE c.customer_id = q.customer RETURNING c.customer_id, c.balance_wei + q.wei AS balance, c.reserved_wei AS reserved
    )
    SELECT array_agg(c.balance - q.before ORDER BY q.ord), array_agg(c.reserved ORDER BY q.ord) INTO v_balances, v_reserves
      FROM (SELECT q.customer, q.ord, sum(q.charged) OVER (PARTITION BY q.customer ORDER BY q.ord) - q.charged AS before
        FROM unnest(p_customers, p_charged_sums) WITH ORDINALITY AS q (customer, charged, ord)) q
      JOIN c ON c.customer_id = q.customer;
    UPDATE money_leases l SET left_wei = l.left_wei - q.charged, calls = p_call,
        ends_at = greatest(l.ends_at, clock_timestamp() + p_ttl_ms * interval '1 ms')
      FROM unnest(p_leases, p_charged_sums) AS q (lease, charged) WHERE l.lease_id = q.lease;
  END IF;
  IF p_receipts IS NOT NULL THEN PERFORM receipts_insert(p_receipts); END IF;
  p_grouped := coalesce(p_grouped, p_hashes);
  v_rows := octet_length(p_grouped) / 32;
  v_now := clock_timestamp();
  -- One statement draws all numbers, in the order of the charges, and looks for a charge that is there twice. No aggregate of it may sort.
  SELECT array_agg(s.reserve), array_agg(s.debit), array_agg(s.release), array_agg(s.receipt) FILTER (WHERE s.receipt IS NOT NULL),
      (SELECT count(*) FROM (SELECT FROM unnest(p_debits) AS q GROUP BY q) d)
    INTO v_reserve_seq, v_debit_seq, v_release_seq, v_seq, v_ids FROM (
      SELECT nextval('ledger_entries_seq_seq') AS reserve, nextval('ledger_entries_seq_seq') AS debit,
        CASE WHEN r.wei > 0 THEN nextval('ledger_entries_seq_seq') END AS release,
        CASE WHEN r.ord <= v_rows THEN nextval('receipts_seq_seq') END AS receipt
      FROM unnest(p_released) WITH ORDINALITY AS r (wei, ord) OFFSET 0) s;
  IF v_ids <> cardinality(p_debits) THEN
    RAISE EXCEPTION 'a charge is there twice' USING ERRCODE = 'check_violation';
  END IF;
  IF v_rows > 0 THEN
    INSERT INTO receipt_groups (last_seq, first_seq, rows, created_at, first_hash, seq, hashes, shared, customer_id, signature_ed25519,
        issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens,
        started_ms, completed_ms, issued_after_ms, price, mac, billed)
      VALUES (v_seq[v_rows], v_seq[1], v_rows, v_now, substring(p_grouped FOR 32), v_seq, p_grouped, p_shared, list_of(c[1]),
        list_of(c[2]), list_of(c[3]), list_of(c[4]), list_of(c[5]), list_of(c[6]), list_of(c[7]), list_of(c[8]), list_of(c[9]),
        list_of(c[10]), list_of(c[11]), c[12]::integer[], c[13]::integer[], c[14]::bigint[], c[15]::bigint[], c[16]::integer[],
        list_of(c[17]), p_mac, true);
  END IF;
  -- Usually all are of one node.
  IF cardinality(p_nodes) = 1 THEN
    SELECT array_fill(payee_of(p_owners[1], n.customer_id, n.payout_address, n.former_payees), ARRAY[v_ids]) INTO v_payees
      FROM nodes n WHERE n.node_id = p_nodes[1];
    IF NOT FOUND THEN v_payees := array_fill(payee_of_deleted(p_owners[1], p_nodes[1]), ARRAY[v_ids]); END IF;
    p_nodes := array_fill(p_nodes[1], ARRAY[v_ids]);
  ELSE
    v_payees := ARRAY(SELECT CASE WHEN n.node_id IS NULL THEN payee_of_deleted(q.owner, q.node)
        ELSE payee_of(q.owner, n.customer_id, n.payout_address, n.former_payees) END
      FROM unnest(p_nodes, p_owners) WITH ORDINALITY AS q (node, owner, ord) LEFT JOIN nodes n ON n.node_id = q.node ORDER BY q.ord);
  END IF;
  IF cardinality(p_leases) > 1 THEN
    PERFORM charge_groups_insert(v_now, p_customers, p_counts, v_balances, v_reserves, p_charged_sums, p_share_sums, p_fee_sums, p_ids,
      p_reserved_at, p_charged, p_shares, p_fees, p_released, p_hashes, p_nodes, p_kinds, v_payees, p_reserves, p_debits, p_releases,
      p_payouts, p_fee_entries, v_reserve_seq, v_debit_seq, v_release_seq);
    RETURN;
  END IF;
  -- Of one lease the arrays are whole: a slice of each took 2 µs a charge.
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    VALUES (greatest(v_debit_seq[p_counts[1]], v_release_seq[p_counts[1]]), v_reserve_seq[1], p_debits[1], p_customers[1], p_counts[1], v_now,
      v_reserve_seq, v_debit_seq, v_release_seq, p_ids, p_reserves, p_debits,
      p_releases, p_payouts, p_fee_entries, p_nodes, p_kinds, v_payees,
      p_charged, p_shares, p_fees, p_released,
      -- In the order of the charges, which a window without one of its own keeps.
      ARRAY(SELECT v_balances[1] - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged) AS u (charged)),
      array_fill(v_reserves[1], ARRAY[p_counts[1]]), p_reserved_at, p_hashes,
      p_charged_sums[1], p_share_sums[1], p_fee_sums[1]);
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
-- p_owners: for whom the nodes worked; NULL: a gateway of the version before does not say it.
--
-- The lock of the view comes before the numbers are drawn: by it the log of a gateway of the version before knows who may
-- still commit a smaller one (`readFence`).
CREATE OR REPLACE FUNCTION ledger_charge(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json, p_group_from int, p_owners text[] DEFAULT NULL)
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
      SELECT q.payout, q.node, q.hash, q.kind, q.job, q.share, q.charged, q.held, q.held, p.payee, p.payee, v_now, v_now
      FROM unnest(v_customers, v_jobs, p_charged, p_shares, p_hashes, p_nodes, p_owners, p_kinds, p_held, p_payouts, v_grouped)
        AS q (customer, job, charged, share, hash, node, owner, kind, held, payout, grouped)
      LEFT JOIN nodes n ON n.node_id = q.node
      CROSS JOIN LATERAL (SELECT CASE WHEN n.node_id IS NULL THEN payee_of_deleted(q.owner, q.node)
        ELSE payee_of(q.owner, n.customer_id, n.payout_address, n.former_payees) END AS payee) p
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
        array_agg(s.kind ORDER BY s.ord),
        array_agg(CASE WHEN n.node_id IS NULL THEN payee_of_deleted(s.owner, s.node)
          ELSE payee_of(s.owner, n.customer_id, n.payout_address, n.former_payees) END ORDER BY s.ord), array_agg(s.charged ORDER BY s.ord),
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
            FROM unnest(p_ids, v_customers, v_reserved, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_owners, p_kinds,
                p_debits, p_releases, p_payouts, p_fee_entries, v_grouped)
              WITH ORDINALITY AS u (id, customer, reserved, charged, share, fee, hash, node, owner, kind, debit, release, payout,
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
-- Of gateways of the version before, which write the receipts of charges as rows; others call `leased_charges_write`.
--
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
        (SELECT array_agg(CASE WHEN n.node_id IS NULL THEN payee_of_deleted(NULL, q.node) ELSE n.payout_address END ORDER BY q.ord) FROM unnest(p_nodes[v_from:v_to]) WITH ORDINALITY AS q (node, ord)
          LEFT JOIN nodes n ON n.node_id = q.node),
        p_charged[v_from:v_to], p_shares[v_from:v_to], p_fees[v_from:v_to], p_released[v_from:v_to],
        (SELECT array_agg(v_balance - q.so_far ORDER BY q.ord) FROM (
          SELECT u.ord, sum(u.charged) OVER (ORDER BY u.ord ROWS UNBOUNDED PRECEDING) AS so_far
          FROM unnest(p_charged[v_from:v_to]) WITH ORDINALITY AS u (charged, ord)) q),
        array_fill(v_reserved, ARRAY[p_counts[i]]), p_reserved_at[v_from:v_to], v_hashes, p_charged_sums[i], p_share_sums[i], p_fee_sums[i]);
  END LOOP;
END $$;
