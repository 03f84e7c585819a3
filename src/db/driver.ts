import postgres from 'postgres'

/** How many repairs `patches/postgres@3.4.9.patch` makes to postgres.js, as the patched driver says itself. */
const repairs = 7

// Without them a query may wait for ever, or be answered by another transaction: docs/decisions/0015-patched-driver.md.
if (!('repairs' in postgres) || postgres.repairs !== repairs) {
  throw new Error(
    'node_modules/postgres does not have the patches of this program. Start it with `npm start` or ./penstock, which apply them.',
  )
}

export { drizzle } from 'drizzle-orm/postgres-js'
export { postgres }
