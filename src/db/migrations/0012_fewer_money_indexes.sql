DROP INDEX "receipts_created_at_index";--> statement-breakpoint
DROP INDEX "payouts_batch_id_index";--> statement-breakpoint
CREATE INDEX "payouts_batch_id_index" ON "payouts" USING btree ("batch_id") WHERE batch_id is not null;