CREATE TABLE "known_models" (
	"model_id" text PRIMARY KEY NOT NULL,
	"known_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);

--> statement-breakpoint
-- As far as anybody can still tell: a model is as old as its first profile, or as what its entry calls so.
INSERT INTO known_models (model_id, known_at)
SELECT model_id, min(at) FROM (
  SELECT upstream_model_id, created_at FROM model_profiles
  UNION ALL
  SELECT model_id, updated_at FROM model_entries
  UNION ALL
  SELECT e.model_id, p.created_at FROM model_entries e JOIN model_profiles p ON e.aliases ? p.upstream_model_id
) AS seen(model_id, at)
GROUP BY model_id;
