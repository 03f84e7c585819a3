CREATE TABLE request_records (
	request_id text NOT NULL,
	at timestamp (3) with time zone NOT NULL,
	customer_id text NOT NULL,
	key_id text,
	operation text NOT NULL,
	stream boolean NOT NULL,
	model text,
	node_id text,
	tries smallint NOT NULL,
	queue_ms integer NOT NULL,
	load_ms integer,
	sent_ms integer,
	ttft_ms integer,
	duration_ms integer NOT NULL,
	prompt_tokens integer,
	completion_tokens integer,
	cache_percent smallint,
	status smallint NOT NULL,
	code text,
	cost_wei numeric(78, 0),
	receipt_hash text,
	failed_tries jsonb,
	PRIMARY KEY (at, request_id)
) PARTITION BY RANGE (at);
--> statement-breakpoint
-- One filter is answered in order by its own index; several are answered by what they have in common, sorted. Most
-- requests succeed: what did not is rare, and has indexes of its own that cost the others nothing.
CREATE INDEX request_records_model ON request_records (model, at);
--> statement-breakpoint
CREATE INDEX request_records_node ON request_records (node_id, at);
--> statement-breakpoint
CREATE INDEX request_records_customer ON request_records (customer_id, at);
--> statement-breakpoint
CREATE INDEX request_records_key ON request_records (key_id, at);
--> statement-breakpoint
CREATE INDEX request_records_status ON request_records (status, at) WHERE status <> 200;
--> statement-breakpoint
CREATE INDEX request_records_code ON request_records (code, at) WHERE code IS NOT NULL;
--> statement-breakpoint
CREATE INDEX request_records_ttft ON request_records (ttft_ms) WHERE ttft_ms IS NOT NULL;
--> statement-breakpoint
-- Makes the days from p_from to p_until that are not there yet, and drops those that ended before p_keep_from; says how
-- many it dropped. A day is made by itself and then attached: CREATE TABLE … PARTITION OF would wait for every reader.
-- A drop waits for who reads at this moment, but not long: the next round tries again.
CREATE FUNCTION request_records_keep(p_from timestamptz, p_until timestamptz, p_keep_from timestamptz)
RETURNS integer LANGUAGE plpgsql SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
  v_day timestamptz := date_trunc('day', p_from); v_name text; v_dropped integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 75);
  WHILE v_day <= p_until LOOP
    v_name := 'request_records_p' || to_char(v_day, 'YYYYMMDD');
    IF to_regclass(v_name) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE request_records INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', v_name);
      EXECUTE format('ALTER TABLE request_records ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        v_name, v_day, v_day + interval '24 hours');
    END IF;
    v_day := v_day + interval '24 hours';
  END LOOP;
  FOR v_name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'request_records'::regclass
      AND c.relname < 'request_records_p' || to_char(p_keep_from, 'YYYYMMDD') ORDER BY 1 LOOP
    EXECUTE format('DROP TABLE %I', v_name);
    v_dropped := v_dropped + 1;
  END LOOP;
  RETURN v_dropped;
END $$;
