CREATE TABLE "log_forks" (
	"entry_index" bigint PRIMARY KEY NOT NULL,
	"lost_note" text NOT NULL
);
