CREATE TABLE "payee_statements" (
	"node_id" text NOT NULL,
	"payee" text NOT NULL,
	"signed_at" timestamp (3) with time zone NOT NULL,
	"signature_ed25519" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "payee_statements_node_id_signed_at_pk" PRIMARY KEY("node_id","signed_at")
);
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "payee_stated_at" timestamp (3) with time zone;