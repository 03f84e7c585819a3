import postgres from 'postgres'

/** The number of repairs in `patches/postgres@3.4.9.patch`, which the patched driver reports. */
const repairs = 10

// Without the repairs a query may wait for ever, or get the answer of another transaction:
// docs/decisions/0015-patched-driver.md.
if (!('repairs' in postgres) || postgres.repairs !== repairs) {
  throw new Error(
    'node_modules/postgres does not have the patches of this program. Start it with `npm start` or ./penstock, which apply them.',
  )
}

export { drizzle } from 'drizzle-orm/postgres-js'
export { postgres }
