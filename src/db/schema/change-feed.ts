import { bigint, pgTable, text } from 'drizzle-orm/pg-core'

/**
 * One row per table that gateways keep copies of; a trigger raises it in the transaction of the change, so a gateway
 * that reads the same number holds nothing outdated (§26).
 */
export const directoryVersions = pgTable('directory_versions', {
  topic: text({
    enum: ['customers', 'gateway_keys', 'nodes', 'model_entries', 'admin_tokens', 'tunnel_owners', 'operators'],
  }).primaryKey(),
  version: bigint({ mode: 'number' }).notNull(),
})
