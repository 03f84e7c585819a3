-- The events of the audit (decisions §16), a partition per week: a purge drops whole ones and bloats nothing. There is no
-- default partition, because none could be detached concurrently beside it; `audit_ensure_partitions` makes them ahead.
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
	created_at timestamp (3) with time zone NOT NULL,
	PRIMARY KEY (created_at, event_id)
) PARTITION BY RANGE (created_at);
--> statement-breakpoint
-- Few values each: equal keys share their place in an index, some 8 MB for a million events. Each set of filters finds
-- one of the four that holds all of its columns, so that what never occurs together costs nothing (40 to 80 ms with an
-- index per column). The newest of all come by the primary key.
CREATE INDEX admin_access_events_path ON admin_access_events (path_template, method, status_code, actor_role);
--> statement-breakpoint
CREATE INDEX admin_access_events_status ON admin_access_events (status_code, actor_role, method);
--> statement-breakpoint
CREATE INDEX admin_access_events_role ON admin_access_events (actor_role, method);
--> statement-breakpoint
CREATE INDEX admin_access_events_method ON admin_access_events (method);
--> statement-breakpoint
CREATE TABLE admin_approval_events (
	event_id text NOT NULL,
	action text NOT NULL,
	actor_type text NOT NULL,
	actor_role text NOT NULL,
	actor_hash_prefix text,
	reason text,
	metadata jsonb NOT NULL,
	request_id text,
	created_at timestamp (3) with time zone NOT NULL,
	writer_id text NOT NULL,
	seq bigint NOT NULL,
	mac bytea NOT NULL,
	category text NOT NULL,
	target_type text NOT NULL,
	target_id text,
	approver_hash_prefix text,
	approval_policy text NOT NULL,
	confirmation text,
	PRIMARY KEY (created_at, event_id)
) PARTITION BY RANGE (created_at);
--> statement-breakpoint
CREATE INDEX admin_approval_events_chain ON admin_approval_events (writer_id, seq);
--> statement-breakpoint
CREATE INDEX admin_approval_events_action ON admin_approval_events (action);
--> statement-breakpoint
CREATE INDEX admin_approval_events_target ON admin_approval_events (target_id);
--> statement-breakpoint
CREATE TABLE admin_command_events (
	event_id text NOT NULL,
	action text NOT NULL,
	actor_type text NOT NULL,
	actor_role text NOT NULL,
	actor_hash_prefix text,
	reason text,
	metadata jsonb NOT NULL,
	request_id text,
	created_at timestamp (3) with time zone NOT NULL,
	writer_id text NOT NULL,
	seq bigint NOT NULL,
	mac bytea NOT NULL,
	command_id text NOT NULL,
	PRIMARY KEY (created_at, event_id)
) PARTITION BY RANGE (created_at);
--> statement-breakpoint
CREATE INDEX admin_command_events_chain ON admin_command_events (writer_id, seq);
--> statement-breakpoint
CREATE INDEX admin_command_events_action ON admin_command_events (action);
--> statement-breakpoint
CREATE INDEX admin_command_events_command ON admin_command_events (command_id);
--> statement-breakpoint
-- Makes the weeks from p_from to p_until that are not there yet; says how many tables it made. A table is made by itself
-- and then attached: CREATE TABLE … PARTITION OF would wait for every reader, and every writer would wait for it.
CREATE FUNCTION audit_ensure_partitions(p_from timestamptz, p_until timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
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
--> statement-breakpoint
SELECT audit_ensure_partitions(now() - interval '7 days', now() + interval '28 days');
