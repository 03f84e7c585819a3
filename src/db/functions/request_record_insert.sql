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
