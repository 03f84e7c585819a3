CREATE SEQUENCE "public"."tunnel_epochs" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "tunnel_owners" (
	"node_id" text PRIMARY KEY NOT NULL,
	"replica_id" text NOT NULL,
	"peer_url" text,
	"epoch" bigint DEFAULT nextval('tunnel_epochs') NOT NULL,
	"lease_until" timestamp (3) with time zone NOT NULL
);
