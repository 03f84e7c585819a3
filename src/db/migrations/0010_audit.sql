CREATE TABLE "audit_chains" (
	"writer_id" text PRIMARY KEY NOT NULL,
	"ordinal" integer NOT NULL,
	"key_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"mac" "bytea" NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	"proof" "bytea" NOT NULL,
	CONSTRAINT "audit_chains_ordinal_unique" UNIQUE("ordinal")
);
--> statement-breakpoint
CREATE TABLE "audit_purge_runs" (
	"run_id" text PRIMARY KEY NOT NULL,
	"status" text NOT NULL,
	"older_than_days" integer NOT NULL,
	"cutoff" timestamp (3) with time zone NOT NULL,
	"asker" jsonb NOT NULL,
	"eligible_access" bigint NOT NULL,
	"eligible_command" bigint NOT NULL,
	"eligible_approval" bigint NOT NULL,
	"purged_access" bigint DEFAULT 0 NOT NULL,
	"purged_command" bigint DEFAULT 0 NOT NULL,
	"purged_approval" bigint DEFAULT 0 NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"finished_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "audit_tombstones" (
	"writer_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"mac" "bytea" NOT NULL,
	"run_id" text NOT NULL,
	"purged_at" timestamp (3) with time zone NOT NULL,
	"key_id" text NOT NULL,
	"proof" "bytea" NOT NULL,
	CONSTRAINT "audit_tombstones_writer_id_seq_pk" PRIMARY KEY("writer_id","seq")
);
