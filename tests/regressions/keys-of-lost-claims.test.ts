import { expect, test } from 'bun:test'
import { createIdempotency } from '../../src/actors/money/idempotency.ts'
import { openDatabase } from '../../src/db/client.ts'
import { type CustomerId, newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { severable } from '../support/gateways/severed-database.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a request with an idempotency key was refused with 503 as the connection to the database broke, and when it was sent again it got 409 for
 * two minutes: the key was in use, and nothing ran.
 * Cause: the database had taken the claim of the key, and its answer was lost, so the gateway did not know of a key that it should free.
 * Fix: a gateway frees the keys whose claims were not answered as soon as the database takes it, and no key that another request has by then.
 */
const database = await fixture(testDatabase({ connectionsMax: 4 }))
const log = createLog('silent', () => {})
const customerId = (await fundedCustomer(database, 1n)) as CustomerId
const commandOf = (requestId: string) => ({ requestId, access: { customerId }, text: '{}', query: '' })
const holders = async () =>
  (await database.sql`select request_id as id from idempotency_keys where customer_id = ${customerId}`).map(
    ({ id }) => id,
  )

async function claimedInVain() {
  const way = await severable(database.url)
  const own = openDatabase({ url: way.url, connectionsMax: 1 })
  const idempotency = createIdempotency({ ...own, log, peppers: ['pepper'], requestMsMax: 1_000 })
  await idempotency.claim(commandOf('before'), 'key')
  const { sql } = database
  const id = newId('req')
  const { claim } = await sql.begin(async (tx) => {
    // The claim waits for this row, and is taken when that is gone.
    await tx`update idempotency_keys set expires_at = now()`
    const claim = idempotency.claim(commandOf(id), 'key').then(
      () => 'claimed',
      () => 'lost',
    )
    await waitUntil('the claim is on its way', async () => (await lockWaits(sql, '%idempotency_keys%')) > 0)
    way.muffle()
    await tx`delete from idempotency_keys`
    return { claim }
  })
  await waitUntil('it is taken', async () => (await holders())[0] === id)
  await way.sever()
  expect(await claim).toBe('lost')
  const close = async () => {
    idempotency.stop()
    await own.close()
    await way.close()
    await database.sql`delete from idempotency_keys`
  }
  return { id, idempotency, way, close }
}

test('§5: a key whose claim the database has taken without an answer is freed when the database is there again', async () => {
  const { id, idempotency, way, close } = await claimedInVain()
  try {
    expect(await holders()).toEqual([id])
    await way.restore()
    await waitUntil('it is freed', async () => (await holders()).length === 0)
    const again = newId('req')
    await idempotency.claim(commandOf(again), 'key')
    expect(await holders()).toEqual([again])
  } finally {
    await close()
  }
})

test.each([
  ['another request has it by then', "request_id = 'another'"],
  ['something was billed for it', "receipt_hash = '0x1'"],
])('§5: and not where %s', async (_, change) => {
  const { way, close } = await claimedInVain()
  try {
    await database.sql.unsafe(`update idempotency_keys set ${change}`)
    const before = await holders()
    await way.restore()
    await waitUntil('the database has been asked', async () => {
      const asked = await database.sql`select 1 from pg_stat_activity where datname = current_database()
        and query like 'delete from idempotency_keys k using%' and state = 'idle'`
      return asked.length > 0
    })
    expect(before).toHaveLength(1)
    expect(await holders()).toEqual(before)
  } finally {
    await close()
  }
})
