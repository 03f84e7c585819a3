ALTER TABLE "protocol_fees" ADD COLUMN IF NOT EXISTS "status" text DEFAULT 'earned' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX IF NOT EXISTS "ledger_entries_refund" ON "ledger_entries" USING btree ("receipt_hash") WHERE kind = 'refund';--> statement-breakpoint
-- What was rejected before refunds existed stays as it was decided: share and fee are the operator's.
UPDATE "protocol_fees" f SET "status" = 'kept' FROM "receipts" r
  WHERE r."receipt_hash" = f."receipt_hash" AND r."status" = 'rejected' AND f."status" = 'earned';
