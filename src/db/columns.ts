import { customType, timestamp, uuid } from 'drizzle-orm/pg-core'

/** Raw bytes: token hashes and sealed secrets. */
export const bytea = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' })

/** `timestamptz` in milliseconds, the precision of every timestamp on the wire. */
export const instant = () => timestamp({ withTimezone: true, precision: 3, mode: 'date' })

/**
 * Another one with each change of what an operator can edit, by whichever writer: the trigger `row_revised` sees to it. It is no
 * `xmin`, which each charge of a customer would move, and it says nothing of the row.
 */
export const revision = () => uuid().notNull().defaultRandom()

export const createdAt = () => instant().notNull().defaultNow()
