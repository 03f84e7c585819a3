-- The tags of each request as one text, with commas between them. Groups of before have none, and those that a gateway of the version
-- before writes while it is replaced neither: their `shared` is shorter, and what it lacks is NULL.
ALTER TABLE request_groups ADD COLUMN tags text[];
--> statement-breakpoint
ALTER TABLE request_groups ALTER COLUMN tags SET STORAGE EXTERNAL;
--> statement-breakpoint
CREATE OR REPLACE VIEW request_records AS
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
		coalesce(u.failed_tries, g.shared[22]::jsonb) AS failed_tries,
		coalesce(u.tags, g.shared[23]) AS tags
	FROM request_groups g, unnest(
		g.request_id, g.at_ms, g.customer_id, g.key_id, g.operation, g.stream, g.model, g.node_id, g.tries, g.queue_ms, g.load_ms,
		g.sent_ms, g.ttft_ms, g.duration_ms, g.prompt_tokens, g.completion_tokens, g.cache_percent, g.status, g.code, g.cost_wei,
		g.receipt_hash, g.failed_tries, g.tags
	) AS u (
		request_id, at_ms, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms, sent_ms, ttft_ms,
		duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash, failed_tries, tags
	);
--> statement-breakpoint
-- A group of requests: its head, and the text of an array for each column; an empty one stands in `shared` or is NULL in every
-- row. It waits for no disk. A group that is sent again has what it had before, in its order, and perhaps more behind it: the
-- longer one stays. A gateway of the version before gives no tags: c[23] is NULL then. An hour that may have been summed up by now is
-- marked, so that it is summed up again: no clock is so far off.
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
    nullif(c[21], '')::text[], nullif(c[22], '')::jsonb[], nullif(c[23], '')::text[])
  ON CONFLICT DO NOTHING;
  IF p_minute::timestamptz < now() - interval '15 minutes' THEN
    INSERT INTO request_sums_late VALUES (date_bin('1 hour', p_minute::timestamptz, 'epoch'));
  END IF;
END $$;
--> statement-breakpoint
-- Row by row, for a gateway of the version before this one, which still runs while this one comes up: a group of one.
CREATE OR REPLACE FUNCTION request_record_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO request_groups (minute, group_id, oldest, newest, rows, names, ttft_most, shared, request_id, at_ms)
  VALUES (date_trunc('minute', NEW.at), NEW.request_id, NEW.at, NEW.at, 1,
    array_remove(ARRAY['customer:' || NEW.customer_id, 'key:' || NEW.key_id, 'model:' || NEW.model, 'node:' || NEW.node_id,
      'code:' || NEW.code, 'status:' || nullif(NEW.status, 200)], NULL)
      || ARRAY(SELECT 'tag:' || t.tag FROM unnest(string_to_array(NEW.tags, ',')) AS t (tag)),
    NEW.ttft_ms,
    ARRAY[NULL, NULL,
      NEW.customer_id, NEW.key_id, NEW.operation, NEW.stream::text, NEW.model, NEW.node_id, NEW.tries::text,
      NEW.queue_ms::text, NEW.load_ms::text, NEW.sent_ms::text, NEW.ttft_ms::text, NEW.duration_ms::text,
      NEW.prompt_tokens::text, NEW.completion_tokens::text, NEW.cache_percent::text, NEW.status::text, NEW.code,
      NEW.cost_wei::text, NEW.receipt_hash, NEW.failed_tries::text, NEW.tags],
    ARRAY[NEW.request_id], ARRAY[(extract(epoch FROM NEW.at - date_trunc('minute', NEW.at)) * 1000)::integer])
  ON CONFLICT DO NOTHING;
  RETURN NEW;
END $$;
