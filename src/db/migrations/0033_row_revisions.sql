ALTER TABLE "customers" ADD COLUMN "revision" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "model_entries" ADD COLUMN "revision" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "revision" uuid DEFAULT gen_random_uuid() NOT NULL;
--> statement-breakpoint
-- What can be edited of the row has changed, by whichever writer: an edit of what was read before is refused (If-Match).
CREATE OR REPLACE FUNCTION row_revised() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.revision := gen_random_uuid();
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER customers_revised BEFORE UPDATE OF display_name, account_status, gateway_policy ON customers FOR EACH ROW
WHEN ((OLD.display_name, OLD.account_status, OLD.gateway_policy)
  IS DISTINCT FROM (NEW.display_name, NEW.account_status, NEW.gateway_policy))
EXECUTE FUNCTION row_revised();
--> statement-breakpoint
CREATE TRIGGER nodes_revised BEFORE UPDATE OF name, url, api_key_sealed, visibility, node_class, privacy_class, rank, external, payout_address ON nodes FOR EACH ROW
WHEN ((OLD.name, OLD.url, OLD.api_key_sealed, OLD.visibility, OLD.node_class, OLD.privacy_class, OLD.rank, OLD.external, OLD.payout_address)
  IS DISTINCT FROM (NEW.name, NEW.url, NEW.api_key_sealed, NEW.visibility, NEW.node_class, NEW.privacy_class, NEW.rank, NEW.external, NEW.payout_address))
EXECUTE FUNCTION row_revised();
--> statement-breakpoint
CREATE TRIGGER model_entries_revised BEFORE UPDATE OF aliases, name, description, input_modalities, output_modalities, context_length, max_output_length, prompt_token_price_wei, completion_token_price_wei, usd_prices ON model_entries FOR EACH ROW
WHEN ((OLD.aliases, OLD.name, OLD.description, OLD.input_modalities, OLD.output_modalities, OLD.context_length, OLD.max_output_length, OLD.prompt_token_price_wei, OLD.completion_token_price_wei, OLD.usd_prices)
  IS DISTINCT FROM (NEW.aliases, NEW.name, NEW.description, NEW.input_modalities, NEW.output_modalities, NEW.context_length, NEW.max_output_length, NEW.prompt_token_price_wei, NEW.completion_token_price_wei, NEW.usd_prices))
EXECUTE FUNCTION row_revised();
