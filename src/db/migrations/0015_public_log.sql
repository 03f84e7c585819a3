CREATE TABLE "log_checkpoints" (
	"origin" text NOT NULL,
	"size" bigint NOT NULL,
	"note" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "log_checkpoints_origin_size_pk" PRIMARY KEY("origin","size")
);
--> statement-breakpoint
CREATE TABLE "log_cosignatures" (
	"origin" text NOT NULL,
	"size" bigint NOT NULL,
	"witness" text NOT NULL,
	"line" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "log_cosignatures_origin_size_witness_pk" PRIMARY KEY("origin","size","witness")
);
--> statement-breakpoint
CREATE TABLE "log_entries" (
	"entry_index" bigint PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"hash" text NOT NULL,
	"subject" text,
	"signature_ed25519" text,
	"from_seq" bigint,
	"to_seq" bigint,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "log_state" (
	"log_id" integer PRIMARY KEY NOT NULL,
	"origin" text NOT NULL,
	"size" bigint NOT NULL,
	"root" "bytea" NOT NULL,
	"receipts_to" bigint NOT NULL,
	"ledger_to" bigint NOT NULL,
	"heads_at" timestamp (3) with time zone,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "log_tiles" (
	"level" integer NOT NULL,
	"tile_index" bigint NOT NULL,
	"hashes" "bytea" NOT NULL,
	CONSTRAINT "log_tiles_level_tile_index_pk" PRIMARY KEY("level","tile_index")
);
--> statement-breakpoint
ALTER TABLE "payouts" ADD COLUMN "earned_payee" text;--> statement-breakpoint
UPDATE "payouts" SET "earned_payee" = "payee";--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "seq" bigint NOT NULL GENERATED ALWAYS AS IDENTITY (sequence name "receipts_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1);--> statement-breakpoint
CREATE INDEX "log_checkpoints_size_index" ON "log_checkpoints" USING btree ("size");--> statement-breakpoint
CREATE INDEX "log_cosignatures_size_index" ON "log_cosignatures" USING btree ("size");--> statement-breakpoint
CREATE UNIQUE INDEX "log_entries_hash_index" ON "log_entries" USING btree ("hash");--> statement-breakpoint
CREATE INDEX "log_entries_kind_subject_index" ON "log_entries" USING btree ("kind","subject");--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_seq_index" ON "ledger_entries" USING btree ("seq");--> statement-breakpoint
CREATE UNIQUE INDEX "receipts_seq_index" ON "receipts" USING btree ("seq");