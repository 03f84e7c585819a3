CREATE TABLE "idempotency_keys" (
	"customer_id" text NOT NULL,
	"key_hash" "bytea" NOT NULL,
	"fingerprint" "bytea" NOT NULL,
	"request_id" text NOT NULL,
	"status" text DEFAULT 'in_progress' NOT NULL,
	"receipt_hash" text,
	"usage" jsonb,
	"http_status" integer,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"completed_at" timestamp (3) with time zone,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_customer_id_key_hash_pk" PRIMARY KEY("customer_id","key_hash")
);
--> statement-breakpoint
CREATE TABLE "ledger_entries" (
	"entry_id" text PRIMARY KEY NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "ledger_entries_seq_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"customer_id" text NOT NULL,
	"kind" text NOT NULL,
	"amount_wei" numeric(78, 0) NOT NULL,
	"balance_after_wei" numeric(78, 0) NOT NULL,
	"reserved_after_wei" numeric(78, 0) NOT NULL,
	"reservation_id" text,
	"private_job_id" text,
	"receipt_hash" text,
	"reason" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "ledger_amount_positive" CHECK ("ledger_entries"."amount_wei" > 0),
	CONSTRAINT "ledger_reserved_within_balance" CHECK (0 <= "ledger_entries"."reserved_after_wei" and "ledger_entries"."reserved_after_wei" <= "ledger_entries"."balance_after_wei"),
	CONSTRAINT "ledger_reservation_of_kind" CHECK (("ledger_entries"."kind" = 'admin_credit') = ("ledger_entries"."reservation_id" is null))
);
--> statement-breakpoint
CREATE TABLE "payouts" (
	"entry_id" text PRIMARY KEY NOT NULL,
	"node_id" text NOT NULL,
	"receipt_hash" text NOT NULL,
	"kind" text NOT NULL,
	"private_job_id" text,
	"amount_wei" numeric(78, 0) NOT NULL,
	"gross_wei" numeric(78, 0) NOT NULL,
	"held" boolean DEFAULT false NOT NULL,
	"settlement_status" text DEFAULT 'pending' NOT NULL,
	"batch_id" text,
	"payee" text,
	"settled_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "payouts_receiptHash_unique" UNIQUE("receipt_hash"),
	CONSTRAINT "payout_amount_positive" CHECK ("payouts"."amount_wei" > 0 and "payouts"."amount_wei" <= "payouts"."gross_wei"),
	CONSTRAINT "payout_batch_of_status" CHECK (("payouts"."settlement_status" in ('pending', 'void')) = ("payouts"."batch_id" is null))
);
--> statement-breakpoint
CREATE TABLE "protocol_fees" (
	"entry_id" text PRIMARY KEY NOT NULL,
	"receipt_hash" text NOT NULL,
	"private_job_id" text,
	"amount_wei" numeric(78, 0) NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "fee_amount_positive" CHECK ("protocol_fees"."amount_wei" > 0)
);
--> statement-breakpoint
CREATE TABLE "reservations" (
	"reservation_id" text PRIMARY KEY NOT NULL,
	"customer_id" text NOT NULL,
	"amount_wei" numeric(78, 0) NOT NULL,
	"status" text DEFAULT 'open' NOT NULL,
	"settled_wei" numeric(78, 0),
	"receipt_hash" text,
	"private_job_id" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"closed_at" timestamp (3) with time zone,
	CONSTRAINT "reservation_amount_positive" CHECK ("reservations"."amount_wei" > 0),
	CONSTRAINT "reservation_settled_within" CHECK (0 <= "reservations"."settled_wei" and "reservations"."settled_wei" <= "reservations"."amount_wei"),
	CONSTRAINT "reservation_closed_once" CHECK (("reservations"."status" = 'open') = ("reservations"."settled_wei" is null))
);
--> statement-breakpoint
CREATE TABLE "payout_batches" (
	"batch_id" text PRIMARY KEY NOT NULL,
	"status" text DEFAULT 'created' NOT NULL,
	"merkle_root" text NOT NULL,
	"payout_count" integer NOT NULL,
	"total_amount_wei" numeric(78, 0) NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"held" boolean DEFAULT false NOT NULL,
	"last_error" text,
	"tx_nonce" bigint,
	"transactions" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"submitted_tx_hash" text,
	"settlement_block_number" text,
	"settlement_block_hash" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"submitted_at" timestamp (3) with time zone,
	"finalized_at" timestamp (3) with time zone,
	"completed_at" timestamp (3) with time zone,
	"next_attempt_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"lease_until" timestamp (3) with time zone,
	"lease_id" text,
	CONSTRAINT "batch_not_empty" CHECK ("payout_batches"."payout_count" > 0 and "payout_batches"."total_amount_wei" > 0)
);
--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "billed" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "receipts" ADD COLUMN "batch_id" text;--> statement-breakpoint
ALTER TABLE "ledger_entries" ADD CONSTRAINT "ledger_entries_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "reservations" ADD CONSTRAINT "reservations_customer_id_customers_customer_id_fk" FOREIGN KEY ("customer_id") REFERENCES "public"."customers"("customer_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "idempotency_keys_expires_at_index" ON "idempotency_keys" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "ledger_entries_customer_id_created_at_seq_index" ON "ledger_entries" USING btree ("customer_id","created_at","seq");--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_reservation_id_kind_index" ON "ledger_entries" USING btree ("reservation_id","kind");--> statement-breakpoint
CREATE INDEX "ledger_entries_created_at_index" ON "ledger_entries" USING btree ("created_at") WHERE kind = 'debit';--> statement-breakpoint
CREATE INDEX "payouts_node_id_created_at_index" ON "payouts" USING btree ("node_id","created_at");--> statement-breakpoint
CREATE INDEX "payouts_created_at_index" ON "payouts" USING btree ("created_at") WHERE settlement_status = 'pending' and not held;--> statement-breakpoint
CREATE INDEX "payouts_batch_id_index" ON "payouts" USING btree ("batch_id");--> statement-breakpoint
CREATE INDEX "protocol_fees_created_at_index" ON "protocol_fees" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "reservations_expires_at_index" ON "reservations" USING btree ("expires_at") WHERE status = 'open';--> statement-breakpoint
CREATE INDEX "payout_batches_created_at_index" ON "payout_batches" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "payout_batches_next_attempt_at_index" ON "payout_batches" USING btree ("next_attempt_at") WHERE status <> 'completed';--> statement-breakpoint
CREATE INDEX "receipts_billed_index" ON "receipts" USING btree ("created_at") WHERE billed;--> statement-breakpoint
ALTER TABLE "customers" ADD CONSTRAINT "customer_reserved_within_balance" CHECK (0 <= "customers"."reserved_wei" and "customers"."reserved_wei" <= "customers"."balance_wei");--> statement-breakpoint
ALTER TABLE "customers" ADD CONSTRAINT "customer_balance_is_uint256" CHECK ("customers"."balance_wei" < 2::numeric ^ 256);