import { expect, test } from 'bun:test'
import { createIdempotency } from '../../src/actors/money/idempotency.ts'
import { openDatabase } from '../../src/db/client.ts'
import { type CustomerId, newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { severable } from '../support/gateways/severed-database.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a request with an idempotency key that failed as the database went away could not be sent again for two minutes: the key was in use.
 * Cause: a key that could not be freed at that moment stayed until it counted as left behind.
 * Fix: it is freed as soon as the database takes it.
 */
const database = await fixture(testDatabase({ connectionsMax: 4 }))
const log = createLog('silent', () => {})

test('§5: a key that is to be freed while the database is away is freed when it is back', async () => {
  const way = await severable(database.url)
  const own = openDatabase({ url: way.url, connectionsMax: 1 })
  const idempotency = createIdempotency({ ...own, log, peppers: ['pepper'], requestMsMax: 1_000 })
  try {
    const customerId = (await fundedCustomer(database, 1n)) as CustomerId
    const command = { requestId: newId('req'), access: { customerId }, text: '{}', query: '' }
    const held = async () =>
      (await database.sql`select 1 from idempotency_keys where customer_id = ${customerId}`).length
    const key = await idempotency.claim(command, 'key')
    expect(await held()).toBe(1)
    await way.sever()
    idempotency.release(key)
    await way.restore()
    await waitUntil('it is freed', async () => (await held()) === 0)
  } finally {
    idempotency.stop()
    await own.close()
    await way.close()
  }
})
