-- Requests that began in the same minute and were written together, as one row: an array for each column of theirs, one
-- element for each request. As rows of a table of their own they cost the server six times as much to write, most of it
-- for the indexes of the filters (bench/RESULTS.md).
--
-- `shared` has the value of each column that is the same in all, by the column's place; its array is NULL then.
-- `request_id` and `at_ms` (from the minute's start) are always arrays. `names` has what a filter may ask for
-- (`customer:…`, `key:…`, `model:…`, `node:…`, `status:…` unless it is 200, `code:…`): where it lacks a name, no request
-- of the group has it.
CREATE TABLE request_groups (
	minute timestamp (3) with time zone NOT NULL,
	group_id text NOT NULL,
	oldest timestamp (3) with time zone NOT NULL,
	newest timestamp (3) with time zone NOT NULL,
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
	failed_tries jsonb[],
	PRIMARY KEY (group_id, minute)
) PARTITION BY RANGE (minute);
--> statement-breakpoint
-- Ids and hashes do not shrink, and trying it costs more than all the rest of a group.
ALTER TABLE request_groups
	ALTER COLUMN request_id SET STORAGE EXTERNAL,
	ALTER COLUMN at_ms SET STORAGE EXTERNAL,
	ALTER COLUMN customer_id SET STORAGE EXTERNAL,
	ALTER COLUMN key_id SET STORAGE EXTERNAL,
	ALTER COLUMN operation SET STORAGE EXTERNAL,
	ALTER COLUMN stream SET STORAGE EXTERNAL,
	ALTER COLUMN model SET STORAGE EXTERNAL,
	ALTER COLUMN node_id SET STORAGE EXTERNAL,
	ALTER COLUMN tries SET STORAGE EXTERNAL,
	ALTER COLUMN queue_ms SET STORAGE EXTERNAL,
	ALTER COLUMN load_ms SET STORAGE EXTERNAL,
	ALTER COLUMN sent_ms SET STORAGE EXTERNAL,
	ALTER COLUMN ttft_ms SET STORAGE EXTERNAL,
	ALTER COLUMN duration_ms SET STORAGE EXTERNAL,
	ALTER COLUMN prompt_tokens SET STORAGE EXTERNAL,
	ALTER COLUMN completion_tokens SET STORAGE EXTERNAL,
	ALTER COLUMN cache_percent SET STORAGE EXTERNAL,
	ALTER COLUMN status SET STORAGE EXTERNAL,
	ALTER COLUMN code SET STORAGE EXTERNAL,
	ALTER COLUMN cost_wei SET STORAGE EXTERNAL,
	ALTER COLUMN receipt_hash SET STORAGE EXTERNAL,
	ALTER COLUMN failed_tries SET STORAGE EXTERNAL;
--> statement-breakpoint
CREATE INDEX request_groups_newest ON request_groups (newest);
--> statement-breakpoint
CREATE INDEX request_groups_ttft ON request_groups (ttft_most) WHERE ttft_most IS NOT NULL;
--> statement-breakpoint
-- What waits to be sorted in is looked through by every search: at most 256 kB.
CREATE INDEX request_groups_names ON request_groups USING gin (names) WITH (gin_pending_list_limit = 256);
--> statement-breakpoint
ALTER TABLE request_records RENAME TO request_records_before;
--> statement-breakpoint
-- Makes the days from p_from to p_until that are not there yet, and drops those that ended before p_keep_from; says how
-- many it dropped. A day is made by itself and then attached: CREATE TABLE … PARTITION OF would wait for every reader.
-- A drop waits for who reads at this moment, but not long: the next round tries again.
CREATE OR REPLACE FUNCTION request_records_keep(p_from timestamptz, p_until timestamptz, p_keep_from timestamptz)
RETURNS integer LANGUAGE plpgsql SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
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
--> statement-breakpoint
SELECT request_records_keep(min(at), greatest(max(at), now()), min(at)) FROM request_records_before;
--> statement-breakpoint
INSERT INTO request_groups
	SELECT r.minute, min(r.request_id) || '.' || r.part, min(r.at), max(r.at), count(*),
		array(SELECT DISTINCT name FROM unnest(
			array_agg('customer:' || r.customer_id) || array_agg('key:' || r.key_id) || array_agg('model:' || r.model)
			|| array_agg('node:' || r.node_id) || array_agg('code:' || r.code)
			|| array_agg('status:' || nullif(r.status, 200))) AS n (name) WHERE name IS NOT NULL),
		max(r.ttft_ms), array_fill(NULL::text, ARRAY[22]),
		array_agg(r.request_id ORDER BY r.at, r.request_id),
		array_agg((extract(epoch FROM r.at - r.minute) * 1000)::integer ORDER BY r.at, r.request_id),
		CASE WHEN count(r.customer_id) > 0 THEN array_agg(r.customer_id ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.key_id) > 0 THEN array_agg(r.key_id ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.operation) > 0 THEN array_agg(r.operation ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.stream) > 0 THEN array_agg(r.stream ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.model) > 0 THEN array_agg(r.model ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.node_id) > 0 THEN array_agg(r.node_id ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.tries) > 0 THEN array_agg(r.tries ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.queue_ms) > 0 THEN array_agg(r.queue_ms ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.load_ms) > 0 THEN array_agg(r.load_ms ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.sent_ms) > 0 THEN array_agg(r.sent_ms ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.ttft_ms) > 0 THEN array_agg(r.ttft_ms ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.duration_ms) > 0 THEN array_agg(r.duration_ms ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.prompt_tokens) > 0 THEN array_agg(r.prompt_tokens ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.completion_tokens) > 0 THEN array_agg(r.completion_tokens ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.cache_percent) > 0 THEN array_agg(r.cache_percent ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.status) > 0 THEN array_agg(r.status ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.code) > 0 THEN array_agg(r.code ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.cost_wei) > 0 THEN array_agg(r.cost_wei ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.receipt_hash) > 0 THEN array_agg(r.receipt_hash ORDER BY r.at, r.request_id) END,
		CASE WHEN count(r.failed_tries) > 0 THEN array_agg(r.failed_tries ORDER BY r.at, r.request_id) END
	FROM (
		SELECT *, (row_number() OVER (PARTITION BY date_trunc('minute', at) ORDER BY at, request_id) - 1) / 250 AS part,
			date_trunc('minute', at) AS minute
		FROM request_records_before
	) r
	GROUP BY r.minute, r.part;
--> statement-breakpoint
DROP TABLE request_records_before;
--> statement-breakpoint
-- A request a row, as it is asked for: with what the group of each says, so that a question can leave groups out.
CREATE VIEW request_records AS
	SELECT g.minute AS group_minute, g.oldest AS group_oldest, g.newest AS group_newest,
		u.request_id,
		(g.minute + u.at_ms * interval '1 millisecond')::timestamp (3) with time zone AS at,
		coalesce(u.customer_id, g.shared[3]) AS customer_id,
		coalesce(u.key_id, g.shared[4]) AS key_id,
		coalesce(u.operation, g.shared[5]) AS operation,
		coalesce(u.stream, g.shared[6]::boolean) AS stream,
		coalesce(u.model, g.shared[7]) AS model,
		coalesce(u.node_id, g.shared[8]) AS node_id,
		coalesce(u.tries, g.shared[9]::smallint) AS tries,
		coalesce(u.queue_ms, g.shared[10]::integer) AS queue_ms,
		coalesce(u.load_ms, g.shared[11]::integer) AS load_ms,
		coalesce(u.sent_ms, g.shared[12]::integer) AS sent_ms,
		coalesce(u.ttft_ms, g.shared[13]::integer) AS ttft_ms,
		coalesce(u.duration_ms, g.shared[14]::integer) AS duration_ms,
		coalesce(u.prompt_tokens, g.shared[15]::integer) AS prompt_tokens,
		coalesce(u.completion_tokens, g.shared[16]::integer) AS completion_tokens,
		coalesce(u.cache_percent, g.shared[17]::smallint) AS cache_percent,
		coalesce(u.status, g.shared[18]::smallint) AS status,
		coalesce(u.code, g.shared[19]) AS code,
		coalesce(u.cost_wei, g.shared[20]::numeric) AS cost_wei,
		coalesce(u.receipt_hash, g.shared[21]) AS receipt_hash,
		coalesce(u.failed_tries, g.shared[22]::jsonb) AS failed_tries
	FROM request_groups g, unnest(
		g.request_id, g.at_ms, g.customer_id, g.key_id, g.operation, g.stream, g.model, g.node_id, g.tries, g.queue_ms, g.load_ms,
		g.sent_ms, g.ttft_ms, g.duration_ms, g.prompt_tokens, g.completion_tokens, g.cache_percent, g.status, g.code, g.cost_wei,
		g.receipt_hash, g.failed_tries
	) AS u (
		request_id, at_ms, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms, sent_ms, ttft_ms,
		duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash, failed_tries
	);
--> statement-breakpoint
-- What the requests of a range come to, by step of time: in all, by node and by model (p_all: in all alone). Groups of
-- requests are read from the newest on until p_rows requests are.
CREATE OR REPLACE FUNCTION request_cells(
  p_from timestamptz, p_until timestamptz, p_step interval, p_node text, p_model text, p_all boolean, p_rows integer)
RETURNS TABLE (at timestamptz, kind text, name text, requests integer, failed integer, prompt_tokens bigint,
  completion_tokens bigint, buckets smallint[], ttft_counts integer[], duration_counts integer[])
LANGUAGE sql STABLE AS $$
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
--> statement-breakpoint
-- A group of requests: its head, and the text of an array for each column; an empty one stands in `shared` or is NULL in every
-- row. It waits for no disk. A group that is sent again has what it had before, in its order, and perhaps more behind it: the
-- longer one stays.
CREATE OR REPLACE FUNCTION request_group_insert(p_minute text, p_group_id text, p_oldest text, p_newest text, p_rows integer,
  p_names text, p_ttft_most integer, p_shared text, c text[]) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;
--> statement-breakpoint
-- The newest groups of p_requests requests, of those that may have a request from p_from to p_last with all of p_names and a first
-- token as late as p_ttft. Who looks through them has seen all such requests that are newer than `reach`, which is that of the
-- next group; NULL: there is none.
--
-- Day by day, the newest first, so that days are left alone once there are enough. Groups with a name are found by the index of
-- names (`+ interval '0'` keeps the planner from the others): to ask each group in its turn is eight times as dear as to fetch
-- one, and the planner takes it for cheap.
CREATE OR REPLACE FUNCTION request_groups_newest(p_from timestamptz, p_last timestamptz, p_names text[], p_ttft integer, p_requests integer)
RETURNS TABLE (minute timestamptz, group_id text, reach timestamptz) LANGUAGE plpgsql STABLE ROWS 50
SET enable_seqscan = off SET timezone = 'UTC' AS $$
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
END $$;
--> statement-breakpoint
-- Row by row, for a gateway of the version before this one, which still runs while this one comes up: a group of one.
CREATE OR REPLACE FUNCTION request_record_insert() RETURNS trigger LANGUAGE plpgsql AS $$
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
--> statement-breakpoint
-- The same as request_records_insert_columns with a JSON array of the columns.
CREATE OR REPLACE FUNCTION request_records_insert(p_records json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM request_records_insert_columns(ARRAY(SELECT value FROM json_array_elements_text(p_records)));
END $$;
--> statement-breakpoint
-- Rows of finished requests of a gateway of the version before this one, which still runs while this one comes up: the text of an
-- array for each column; an empty one is NULL in every row. What is there already stays as it is.
CREATE OR REPLACE FUNCTION request_records_insert_columns(c text[]) RETURNS void LANGUAGE plpgsql AS $$
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
--> statement-breakpoint
-- Sums up the oldest hour that is not summed up yet and over by p_closed, and with the last hour of a day the day; false:
-- there is none. An hour without requests leaves a row too, so that the next call goes on behind it. Sums of days
-- before that of p_keep_from are dropped.
CREATE OR REPLACE FUNCTION request_sums_make(p_closed timestamptz, p_keep_from timestamptz)
RETURNS boolean LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
  v_hour timestamptz; v_keep timestamptz := date_trunc('day', p_keep_from);
BEGIN
  PERFORM pg_advisory_xact_lock(7413, 76);
  SELECT max(s.at) + interval '1 hour' INTO v_hour FROM request_sums s WHERE s.span_seconds = 3600;
  IF v_hour IS NULL THEN
    SELECT min(g.newest) INTO v_hour FROM request_groups g;
  END IF;
  IF v_hour IS NULL THEN
    RETURN false;
  END IF;
  v_hour := date_trunc('hour', greatest(v_hour, v_keep));
  IF v_hour + interval '1 hour' > p_closed THEN
    DELETE FROM request_sums s WHERE s.at < v_keep;
    RETURN false;
  END IF;
  INSERT INTO request_sums
    SELECT 3600, c.* FROM request_cells(v_hour, v_hour + interval '1 hour', '1 hour', NULL, NULL, false, NULL) c;
  INSERT INTO request_sums VALUES (3600, v_hour, 'all', '', 0, 0, 0, 0, '{}', '{}', '{}') ON CONFLICT DO NOTHING;
  IF extract(hour FROM v_hour) = 23 THEN
    INSERT INTO request_sums
      WITH hours AS (
        SELECT * FROM request_sums s
        WHERE s.span_seconds = 3600 AND s.at >= date_trunc('day', v_hour) AND s.at <= v_hour
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
      SELECT 86400, date_trunc('day', v_hour), w.kind, w.name, w.requests, w.failed, w.prompt_tokens,
        w.completion_tokens, coalesce(p.buckets, '{}'), coalesce(p.ttft_counts, '{}'), coalesce(p.duration_counts, '{}')
      FROM whole w LEFT JOIN packed p ON (p.kind, p.name) = (w.kind, w.name);
  END IF;
  RETURN true;
END $$;
--> statement-breakpoint
CREATE TRIGGER request_record_insert INSTEAD OF INSERT ON request_records FOR EACH ROW EXECUTE FUNCTION request_record_insert();
