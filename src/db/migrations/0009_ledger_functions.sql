-- Entries are never changed and never removed: what was wrong is put right by another entry.
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries FOR EACH ROW
EXECUTE FUNCTION ledger_is_append_only();
--> statement-breakpoint
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT
EXECUTE FUNCTION ledger_is_append_only();
--> statement-breakpoint
-- The functions below take any number of requests at once: one commit for all that waited (decisions §13). Each locks its
-- customers in the order of their ids, so that two gateways never wait for each other, and only then looks at what it
-- changes: in a function every statement sees what was committed before it, in one statement nothing after its start.
--
-- Requests are met in the order given, each out of what the ones before it left. Saying a request again that was met
-- changes nothing and gives the same answer. Outcomes: `reserved`, `insufficient`, `conflict` (the id was used for
-- something else, or is closed), `no_customer`.
CREATE FUNCTION ledger_reserve(p_requests json, p_ttl_ms bigint)
RETURNS TABLE (id text, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  r record; v_now timestamptz; v_customer text; v_reserved numeric;
  v_ids text[] := '{}'; v_outcomes text[] := '{}';
  v_new text[] := '{}'; v_after numeric[] := '{}';
BEGIN
  PERFORM 1 FROM customers c
    WHERE c.customer_id IN (SELECT q.customer FROM json_to_recordset(p_requests) AS q (customer text))
    ORDER BY c.customer_id FOR UPDATE;
  v_now := clock_timestamp();
  FOR r IN
    SELECT q.id, q.amount, q.customer, c.customer_id IS NOT NULL AS known, c.balance_wei, c.reserved_wei,
      o.reservation_id IS NOT NULL AS seen,
      o.status = 'open' AND o.customer_id = q.customer AND o.amount_wei = q.amount AS same
    FROM json_to_recordset(p_requests) AS q (ord int, id text, customer text, amount numeric)
    LEFT JOIN customers c ON c.customer_id = q.customer
    LEFT JOIN reservations o ON o.reservation_id = q.id
    ORDER BY q.customer, q.ord
  LOOP
    v_ids := v_ids || r.id;
    IF NOT r.known THEN v_outcomes := v_outcomes || 'no_customer'::text; CONTINUE; END IF;
    IF r.customer IS DISTINCT FROM v_customer THEN v_customer := r.customer; v_reserved := r.reserved_wei; END IF;
    IF r.seen THEN v_outcomes := v_outcomes || (CASE WHEN r.same THEN 'reserved' ELSE 'conflict' END); CONTINUE; END IF;
    IF v_reserved + r.amount > r.balance_wei THEN v_outcomes := v_outcomes || 'insufficient'::text; CONTINUE; END IF;
    v_reserved := v_reserved + r.amount;
    v_outcomes := v_outcomes || 'reserved'::text;
    v_new := v_new || r.id;
    v_after := v_after || v_reserved;
  END LOOP;
  IF cardinality(v_new) > 0 THEN
    INSERT INTO reservations (reservation_id, customer_id, amount_wei, private_job_id, created_at, expires_at)
      SELECT q.id, q.customer, q.amount, q.job, v_now, v_now + p_ttl_ms * interval '1 ms'
      FROM json_to_recordset(p_requests) AS q (id text, customer text, amount numeric, job text)
      WHERE q.id = ANY (v_new);
    INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
        reservation_id, private_job_id, created_at)
      SELECT q.entry, q.customer, 'reserve', q.amount, c.balance_wei, n.after, q.id, q.job, v_now
      FROM unnest(v_new, v_after) WITH ORDINALITY AS n (id, after, ord)
      JOIN json_to_recordset(p_requests) AS q (id text, customer text, amount numeric, job text, entry text) ON q.id = n.id
      JOIN customers c ON c.customer_id = q.customer
      ORDER BY n.ord;
    UPDATE customers c SET reserved_wei = c.reserved_wei + t.amount
      FROM (SELECT q.customer, sum(q.amount) AS amount
        FROM json_to_recordset(p_requests) AS q (id text, customer text, amount numeric)
        WHERE q.id = ANY (v_new) GROUP BY q.customer) t
      WHERE c.customer_id = t.customer;
  END IF;
  RETURN QUERY SELECT * FROM unnest(v_ids, v_outcomes);
END $$;
--> statement-breakpoint
-- Debits `charged` of each reservation and releases the rest; 0 releases all of it. The node's share and the fee are
-- written with the debit, so that debits = payouts + fees at every commit. Outcomes: `settled`; `closed`: the reservation
-- was closed before, with another outcome (released as stale, for instance), and nothing is debited; `unknown`.
CREATE FUNCTION ledger_settle(p_requests json)
RETURNS TABLE (id text, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  r record; v_now timestamptz; v_customer text; v_balance numeric; v_reserved numeric;
  v_ids text[] := '{}'; v_outcomes text[] := '{}'; v_new text[] := '{}';
  v_entries text[] := '{}'; v_of text[] := '{}'; v_kinds text[] := '{}';
  v_amounts numeric[] := '{}'; v_balances numeric[] := '{}'; v_reserveds numeric[] := '{}';
BEGIN
  PERFORM 1 FROM customers c WHERE c.customer_id IN (
      SELECT o.customer_id FROM reservations o
      JOIN json_to_recordset(p_requests) AS q (id text) ON q.id = o.reservation_id)
    ORDER BY c.customer_id FOR UPDATE;
  v_now := clock_timestamp();
  FOR r IN
    SELECT q.id, q.charged, q.hash, q.share, q.fee, q.debit, q.release, o.customer_id, o.amount_wei, o.status,
      o.settled_wei, o.receipt_hash, c.balance_wei, c.reserved_wei
    FROM json_to_recordset(p_requests)
      AS q (ord int, id text, charged numeric, hash text, share numeric, fee numeric, debit text, release text)
    LEFT JOIN reservations o ON o.reservation_id = q.id
    LEFT JOIN customers c ON c.customer_id = o.customer_id
    ORDER BY o.customer_id, q.ord
  LOOP
    v_ids := v_ids || r.id;
    IF r.customer_id IS NULL THEN v_outcomes := v_outcomes || 'unknown'::text; CONTINUE; END IF;
    IF r.status <> 'open' THEN
      v_outcomes := v_outcomes || (CASE WHEN r.settled_wei = r.charged AND r.receipt_hash IS NOT DISTINCT FROM r.hash
        THEN 'settled' ELSE 'closed' END);
      CONTINUE;
    END IF;
    IF r.charged <> r.share + r.fee OR r.charged < 0 THEN
      RAISE EXCEPTION 'a charge is not its share and fee' USING ERRCODE = 'check_violation';
    END IF;
    IF r.customer_id IS DISTINCT FROM v_customer THEN
      v_customer := r.customer_id; v_balance := r.balance_wei; v_reserved := r.reserved_wei;
    END IF;
    v_outcomes := v_outcomes || 'settled'::text;
    v_new := v_new || r.id;
    IF r.charged > 0 THEN
      v_balance := v_balance - r.charged; v_reserved := v_reserved - r.charged;
      v_entries := v_entries || r.debit; v_of := v_of || r.id; v_kinds := v_kinds || 'debit'::text;
      v_amounts := v_amounts || r.charged; v_balances := v_balances || v_balance; v_reserveds := v_reserveds || v_reserved;
    END IF;
    IF r.charged < r.amount_wei THEN
      v_reserved := v_reserved - (r.amount_wei - r.charged);
      v_entries := v_entries || r.release; v_of := v_of || r.id; v_kinds := v_kinds || 'release'::text;
      v_amounts := v_amounts || (r.amount_wei - r.charged);
      v_balances := v_balances || v_balance; v_reserveds := v_reserveds || v_reserved;
    END IF;
  END LOOP;
  IF cardinality(v_new) > 0 THEN
    UPDATE customers c SET reserved_wei = c.reserved_wei - t.amount, balance_wei = c.balance_wei - t.charged
      FROM (SELECT o.customer_id, sum(o.amount_wei) AS amount, sum(q.charged) AS charged
        FROM json_to_recordset(p_requests) AS q (id text, charged numeric)
        JOIN reservations o ON o.reservation_id = q.id
        WHERE q.id = ANY (v_new) GROUP BY o.customer_id) t
      WHERE c.customer_id = t.customer_id;
    UPDATE reservations o SET status = CASE WHEN q.charged > 0 THEN 'settled' ELSE 'released' END,
        settled_wei = q.charged, receipt_hash = q.hash, closed_at = v_now
      FROM json_to_recordset(p_requests) AS q (id text, charged numeric, hash text)
      WHERE o.reservation_id = q.id AND q.id = ANY (v_new);
    INSERT INTO ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
        reservation_id, private_job_id, receipt_hash, created_at)
      SELECT n.entry, o.customer_id, n.kind, n.amount, n.balance, n.reserved, n.id, o.private_job_id, o.receipt_hash, v_now
      FROM unnest(v_entries, v_of, v_kinds, v_amounts, v_balances, v_reserveds)
        WITH ORDINALITY AS n (entry, id, kind, amount, balance, reserved, ord)
      JOIN reservations o ON o.reservation_id = n.id
      ORDER BY n.ord;
    INSERT INTO payouts (entry_id, node_id, receipt_hash, kind, private_job_id, amount_wei, gross_wei, held, payee,
        created_at, updated_at)
      SELECT q.payout, q.node, q.hash, q.kind, o.private_job_id, q.share, q.charged, q.held, n.payout_address, v_now, v_now
      FROM json_to_recordset(p_requests) AS q (id text, payout text, node text, hash text, kind text, share numeric,
        charged numeric, held boolean)
      JOIN reservations o ON o.reservation_id = q.id
      LEFT JOIN nodes n ON n.node_id = q.node
      WHERE q.id = ANY (v_new) AND q.share > 0;
    INSERT INTO protocol_fees (entry_id, receipt_hash, private_job_id, amount_wei, created_at)
      SELECT q.fee_entry, q.hash, o.private_job_id, q.fee, v_now
      FROM json_to_recordset(p_requests) AS q (id text, fee_entry text, hash text, fee numeric)
      JOIN reservations o ON o.reservation_id = q.id
      WHERE q.id = ANY (v_new) AND q.fee > 0;
  END IF;
  -- Nobody pays for work whose reservation had ended: its receipt is not a billed one.
  UPDATE receipts x SET billed = false, status = 'accepted'
    FROM json_to_recordset(p_requests) AS q (id text, hash text)
    JOIN unnest(v_ids, v_outcomes) AS a (id, outcome) ON a.id = q.id AND a.outcome <> 'settled'
    WHERE x.receipt_hash = q.hash AND x.billed;
  RETURN QUERY SELECT * FROM unnest(v_ids, v_outcomes);
END $$;
