CREATE TABLE "actor_names" (
	"actor_hash_prefix" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"admin_id" text,
	"named_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "admins" (
	"admin_id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"role" text NOT NULL,
	"token_hash" "bytea" NOT NULL,
	"display_prefix" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"last_used_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone,
	CONSTRAINT "admins_tokenHash_unique" UNIQUE("token_hash")
);
--> statement-breakpoint
CREATE TABLE "console_sessions" (
	"session_id" text PRIMARY KEY NOT NULL,
	"token_hash" "bytea" NOT NULL,
	"method" text NOT NULL,
	"role" text NOT NULL,
	"name" text,
	"actor_hash_prefix" text NOT NULL,
	"admin_id" text,
	"source_hash" "bytea",
	"sign_in_hash" "bytea",
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"last_seen_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"end_reason" text,
	CONSTRAINT "console_sessions_tokenHash_unique" UNIQUE("token_hash"),
	CONSTRAINT "console_sessions_signInHash_unique" UNIQUE("sign_in_hash")
);
--> statement-breakpoint
ALTER TABLE "console_sessions" ADD CONSTRAINT "console_sessions_admin_id_admins_admin_id_fk" FOREIGN KEY ("admin_id") REFERENCES "public"."admins"("admin_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "admins_live_name" ON "admins" USING btree (lower("name")) WHERE "admins"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "console_sessions_live" ON "console_sessions" USING btree ("expires_at") WHERE "console_sessions"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "console_sessions_by_admin" ON "console_sessions" USING btree ("admin_id");--> statement-breakpoint
-- Gateways keep a copy of the named tokens and of the open sessions. When somebody was seen last tells nobody anything.
INSERT INTO directory_versions (topic, version) VALUES ('operators', 1);
--> statement-breakpoint
CREATE TRIGGER admins_changed AFTER INSERT OR DELETE OR UPDATE OF revoked_at ON admins FOR EACH ROW
EXECUTE FUNCTION directory_changed('operators');
--> statement-breakpoint
CREATE TRIGGER console_sessions_changed AFTER INSERT OR DELETE OR UPDATE OF ended_at ON console_sessions FOR EACH ROW
EXECUTE FUNCTION directory_changed('operators');
