ALTER TABLE "log_forks" ADD COLUMN "witness" text;
