-- An edit of what a model is for is one of the entry: what was read before it no longer matches (If-Match).
DROP TRIGGER model_entries_revised ON model_entries;
--> statement-breakpoint
CREATE TRIGGER model_entries_revised BEFORE UPDATE OF aliases, name, description, input_modalities, output_modalities, serves, context_length, max_output_length, prompt_token_price_wei, completion_token_price_wei, usd_prices ON model_entries FOR EACH ROW
WHEN ((OLD.aliases, OLD.name, OLD.description, OLD.input_modalities, OLD.output_modalities, OLD.serves, OLD.context_length, OLD.max_output_length, OLD.prompt_token_price_wei, OLD.completion_token_price_wei, OLD.usd_prices)
  IS DISTINCT FROM (NEW.aliases, NEW.name, NEW.description, NEW.input_modalities, NEW.output_modalities, NEW.serves, NEW.context_length, NEW.max_output_length, NEW.prompt_token_price_wei, NEW.completion_token_price_wei, NEW.usd_prices))
EXECUTE FUNCTION row_revised();
