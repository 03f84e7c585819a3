#!/bin/sh
# Prints new random values for the settings that DATABASE_URL requires, as an environment file:
#   (umask 077; sh ops/new-secrets.sh > ops/penstock.env)
# Needs openssl. Keep the file: without it every key and stored secret of the database is useless.
set -eu
for name in SVC_TOKEN_PEPPER SVC_SECRETS_KEY SVC_AUDIT_KEY SVC_ROUTER_KEY SVC_WEBHOOK_KEY SVC_LOG_KEY; do
  echo "$name=$(openssl rand -hex 32)"
done
echo "SVC_ADMIN_TOKENS=$(openssl rand -hex 32)"
echo "POSTGRES_PASSWORD=$(openssl rand -hex 24)"
