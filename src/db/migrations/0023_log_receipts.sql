CREATE TABLE "log_receipts" (
	"first_index" bigint PRIMARY KEY NOT NULL,
	"entries" integer NOT NULL,
	"from_seq" bigint NOT NULL,
	"to_seq" bigint NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX "log_receipts_to_seq_index" ON "log_receipts" USING btree ("to_seq");
--> statement-breakpoint
-- Every entry of the log, whichever table it stands in. `first_index` is its run's, by which a part of the log is found.
CREATE VIEW log_contents AS
SELECT e.entry_index AS first_index, e.entry_index, e.kind, e.hash FROM log_entries e
UNION ALL
SELECT l.first_index, l.first_index + row_number() OVER (PARTITION BY l.first_index ORDER BY r.seq) - 1, 'receipt', r.receipt_hash
FROM log_receipts l JOIN receipts r ON r.seq > l.from_seq AND r.seq <= l.to_seq;
