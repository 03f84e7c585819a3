-- What gateways keep copies of tells them when it changes (decisions §26).
INSERT INTO directory_versions (topic, version)
VALUES ('customers', 1), ('gateway_keys', 1), ('nodes', 1), ('model_entries', 1), ('admin_tokens', 1);
--> statement-breakpoint
CREATE FUNCTION directory_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE directory_versions SET version = version + 1 WHERE topic = TG_ARGV[0];
  PERFORM pg_notify('penstock_changes', TG_ARGV[0]);
  RETURN NULL;
END $$;
--> statement-breakpoint
-- Balances and the time of the last use move all the time and are nothing that a gateway keeps: hence the conditions.
CREATE TRIGGER customers_changed AFTER UPDATE ON customers FOR EACH ROW
WHEN ((OLD.account_status, OLD.gateway_policy, OLD.token_hash, OLD.display_name)
  IS DISTINCT FROM (NEW.account_status, NEW.gateway_policy, NEW.token_hash, NEW.display_name))
EXECUTE FUNCTION directory_changed('customers');
--> statement-breakpoint
CREATE TRIGGER customers_added AFTER INSERT OR DELETE ON customers FOR EACH ROW
EXECUTE FUNCTION directory_changed('customers');
--> statement-breakpoint
CREATE TRIGGER gateway_keys_changed AFTER UPDATE ON gateway_keys FOR EACH ROW
WHEN ((OLD.customer_id, OLD.key_hash, OLD.name, OLD.node_scope, OLD.model_policy, OLD.expires_at, OLD.revoked_at)
  IS DISTINCT FROM (NEW.customer_id, NEW.key_hash, NEW.name, NEW.node_scope, NEW.model_policy, NEW.expires_at, NEW.revoked_at))
EXECUTE FUNCTION directory_changed('gateway_keys');
--> statement-breakpoint
CREATE TRIGGER gateway_keys_added AFTER INSERT OR DELETE ON gateway_keys FOR EACH ROW
EXECUTE FUNCTION directory_changed('gateway_keys');
--> statement-breakpoint
CREATE TRIGGER nodes_changed AFTER INSERT OR UPDATE OR DELETE ON nodes FOR EACH ROW
EXECUTE FUNCTION directory_changed('nodes');
--> statement-breakpoint
CREATE TRIGGER model_entries_changed AFTER INSERT OR UPDATE OR DELETE ON model_entries FOR EACH ROW
EXECUTE FUNCTION directory_changed('model_entries');
--> statement-breakpoint
CREATE TRIGGER admin_tokens_changed AFTER INSERT OR UPDATE OR DELETE ON admin_tokens FOR EACH ROW
EXECUTE FUNCTION directory_changed('admin_tokens');
--> statement-breakpoint
-- How much a lease holds from now on, in all: what it has spent, what it needs (as far as there is room), and a reserve
-- up to what it wants. Beside other holders the reserve is at most a quarter of what is left, so that the last of a
-- pool does not lie idle with one of them.
CREATE FUNCTION lease_grant(p_spent bigint, p_need bigint, p_want bigint, p_room bigint, p_alone boolean)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p_need > p_room THEN greatest(p_spent, p_room)
    ELSE p_need + least(greatest(p_want - p_need, 0), CASE WHEN p_alone THEN p_room - p_need ELSE (p_room - p_need) / 4 END)
  END
$$;
--> statement-breakpoint
-- The functions below state a lease anew, in absolute numbers, so that a message whose answer was lost can be sent
-- again. No row: the lease is not known (any more). `others`: somebody else holds a reserve, or may have come by one
-- since it last spoke, and was asked for it; `p_asking_ms` is for how long the asker has been asking, so that who has
-- answered meanwhile and has none is not waited for.
CREATE FUNCTION sync_quota_lease(
  p_customer text, p_day date, p_lease text, p_seq bigint, p_quota bigint,
  p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint,
  p_asking_ms double precision
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
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
--> statement-breakpoint
-- A token bucket. What is leased and not yet spent counts as still in it, so the bucket never refills beyond its
-- capacity less that: over any time T at most capacity + T × rate are spent, whoever spends them.
CREATE FUNCTION sync_rate_lease(
  p_key text, p_lease text, p_seq bigint, p_capacity double precision, p_per_second double precision,
  p_spent bigint, p_need bigint, p_want bigint, p_fresh boolean, p_close boolean, p_ttl_ms bigint
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
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
--> statement-breakpoint
-- Requests at once. A lease that its holder did not renew is free again; one that returns says what it really uses.
CREATE FUNCTION sync_slot_lease(
  p_customer text, p_lease text, p_seq bigint, p_slots bigint,
  p_spent bigint, p_need bigint, p_want bigint, p_close boolean, p_ttl_ms bigint, p_asking_ms double precision
) RETURNS TABLE (granted bigint, remaining double precision, others boolean, wait_ms double precision)
LANGUAGE plpgsql AS $$
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
