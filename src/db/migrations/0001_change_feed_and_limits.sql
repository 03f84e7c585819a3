CREATE TABLE "directory_versions" (
	"topic" text PRIMARY KEY NOT NULL,
	"version" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "quota_days" (
	"customer_id" text NOT NULL,
	"day" date NOT NULL,
	"taken" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "quota_days_customer_id_day_pk" PRIMARY KEY("customer_id","day")
);
--> statement-breakpoint
CREATE TABLE "quota_leases" (
	"customer_id" text NOT NULL,
	"day" date NOT NULL,
	"cap" bigint NOT NULL,
	"spent" bigint NOT NULL,
	"lease_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "quota_leases_customer_id_day_lease_id_pk" PRIMARY KEY("customer_id","day","lease_id")
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "rate_buckets" (
	"key" text PRIMARY KEY NOT NULL,
	"level" double precision NOT NULL,
	"at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "rate_leases" (
	"key" text NOT NULL,
	"cap" bigint NOT NULL,
	"spent" bigint NOT NULL,
	"lease_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "rate_leases_key_lease_id_pk" PRIMARY KEY("key","lease_id")
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "slot_leases" (
	"customer_id" text NOT NULL,
	"cap" integer NOT NULL,
	"spent" integer NOT NULL,
	"lease_id" text NOT NULL,
	"seq" bigint NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "slot_leases_customer_id_lease_id_pk" PRIMARY KEY("customer_id","lease_id")
);
