import { customType, timestamp } from 'drizzle-orm/pg-core'

/** Raw bytes: token hashes and sealed secrets. */
export const bytea = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' })

/** `timestamptz` in milliseconds, the precision of every timestamp on the wire. */
export const instant = () => timestamp({ withTimezone: true, precision: 3, mode: 'date' })

export const createdAt = () => instant().notNull().defaultNow()
