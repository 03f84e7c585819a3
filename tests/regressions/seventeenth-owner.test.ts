import { expect, test } from 'bun:test'
import { lockNode, passNode } from '../../src/db/queries/pool/pool.ts'
import type { CustomerId } from '../../src/ids.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: when a node got its 18th owner, shares of the work for all former owners but one went to the new one.
 * Cause: where sixteen addresses of former owners were kept, all of them were dropped for the next one.
 * Fix: the newest sixteen stay, and JSONB, which has no order, is told it.
 */
const database = await fixture(testDatabase())
const { db, sql } = database

/** Their ids are in no order. */
const owners = Array.from({ length: 20 }, (_, at) => `cus_${(at * 7) % 20}` as CustomerId)
const addressOf = (owner: string) => `0x${owner.slice(4).padStart(40, '0')}`
for (const owner of owners) {
  await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values (${owner}, ${owner}, ${Buffer.from(owner)}, ${Buffer.from(owner)})`
}

async function sell(nodeId: string, to: CustomerId, given: boolean): Promise<void> {
  await db.transaction(async (tx) => {
    const node = await lockNode(tx, nodeId)
    if (node === null || (await passNode(tx, node, to)) === null) throw new Error('the node was not passed on')
  })
  const address = given ? addressOf(to) : null
  await sql`update nodes set payout_address = ${address} where node_id = ${nodeId}`
}

/** Owners whose shares still go to their addresses, of those who had the node. */
async function paid(nodeId: string): Promise<readonly string[]> {
  const [row] = await sql<{ payees: (string | null)[] }[]>`
    select array_to_json(array(select payee_of(o, n.customer_id, n.payout_address, n.former_payees)
      from unnest(string_to_array(${owners.join()}, ',')) with ordinality as u (o, place) order by place)) as payees
    from nodes n where n.node_id = ${nodeId}`
  const payees = row?.payees ?? []
  for (const [at, payee] of payees.entries()) expect([null, addressOf(owners[at] ?? '')]).toContain(payee)
  return owners.filter((_, at) => payees[at] !== null)
}

const newNode = (nodeId: string, owner: string, former: string | null = null) => sql`
  insert into nodes (node_id, customer_id, name, kind, url, payout_address, visibility, privacy_class, node_class, former_payees)
  values (${nodeId}, ${owner}, ${nodeId}, 'runtime', ${`http://127.0.0.1:9/${nodeId}`}, ${addressOf(owner)}, 'private', 'private', 'gpu',
    ${former}::text::jsonb)`

test('§31: of a node’s owners the newest sixteen former ones are known, and the present one', async () => {
  const [first = '' as CustomerId, ...later] = owners
  await newNode('node_a', first)
  for (const [at, owner] of later.entries()) {
    await sell('node_a', owner, true)
    expect(await paid('node_a')).toEqual(owners.slice(Math.max(0, at + 1 - 16), at + 2))
  }
  // An owner who had it before is the newest now.
  const [again = '' as CustomerId, last = '' as CustomerId] = [owners[4], owners[19]]
  await sell('node_a', again, true)
  await sell('node_a', last, false)
  const known = new Set(await paid('node_a'))
  expect([known.has(again), known.has(owners[3] ?? ''), known.size]).toEqual([true, false, 15])
})

test('§31: what a version before has kept stays known', async () => {
  const [first = '' as CustomerId, second = '' as CustomerId, third = '' as CustomerId] = owners
  await newNode('node_b', second, JSON.stringify({ [first]: addressOf(first) }))
  await sell('node_b', third, true)
  expect(await paid('node_b')).toEqual([first, second, third])
  // And what one adds meanwhile.
  await sql`update nodes set former_payees = former_payees || ${JSON.stringify({ [owners[5] ?? '']: addressOf(owners[5] ?? '') })}::text::jsonb
    where node_id = 'node_b'`
  await sell('node_b', owners[6] ?? third, true)
  expect([...(await paid('node_b'))].sort()).toEqual([first, second, third, owners[5], owners[6]].map(String).sort())
})
