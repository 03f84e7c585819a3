import { expect } from 'bun:test'
import { checkChains } from '../../../src/actors/audit/audit-check.ts'
import { waitUntil } from '../run/wait-until.ts'
import { startTestGateway, type TestGateway } from './gateway.ts'
import { type GatewayProcess, spawnGateway } from './gateway-process.ts'

export interface CrashReport {
  readonly rounds: number
  /** Changes that were answered as done, over all rounds. */
  readonly answered: number
  /** Changes that are in the database and whose answer the kill cut off. */
  readonly unanswered: number
  readonly events: number
}

const clients = 8
/** A busy machine answers fewer in the same time: it is killed later. */
const answersLeast = 21

/** Changes of all kinds until the gateway is gone; the ids of those that were answered as done. */
async function change(
  gateway: TestGateway,
  nodeId: string,
  customerId: string,
  client: number,
  told: () => void,
): Promise<string[]> {
  const done: string[] = []
  for (let index = 0; ; index++) {
    const kinds: readonly (readonly [string, string, object])[] = [
      ['POST', '/v1/admin/customers', { display_name: `c${client}-${index}`, reason: 'crash' }],
      ['PATCH', `/v1/admin/customers/${customerId}`, { display_name: `d${index}` }],
      ['POST', `/v1/admin/nodes/${nodeId}/${index % 2 === 0 ? 'drain' : 'resume'}`, {}],
      ['PUT', '/v1/admin/models', { id: `m${client}`, name: `n${index}` }],
      ['POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: '1', reason: 'crash' }],
    ]
    const [method, path, body] = kinds[index % kinds.length] ?? ['', '', {}]
    try {
      const response = await fetch(gateway.url + path, {
        method,
        headers: { 'x-svc-admin-token': gateway.tokens.admin, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      // What counts is what the caller was told, whole.
      await response.text()
      if (!response.ok) continue
      done.push(response.headers.get('x-request-id') ?? '')
      told()
    } catch {
      return done
    }
  }
}

/** Kills a gateway under load, again and again on one database, and compares what it answered with what it left. */
export async function crashUnderLoad(rounds: number, loadMs: number): Promise<CrashReport> {
  let process: GatewayProcess | null = null
  const launch = async (env: Readonly<Record<string, string>>) => {
    process = await spawnGateway(env)
    return process
  }
  const first = await startTestGateway({ launch, env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } })
  const { sql, db } = first.database
  let gateway = first
  const answered = new Set<string>()
  try {
    const { customerId } = await first.customer()
    const nodeId = await first.node('http://127.0.0.1:9', { customerId, unready: true })
    for (let round = 0; round < rounds; round++) {
      if (round > 0) gateway = await startTestGateway({ beside: first, launch, env: first.env })
      let answers = 0
      const told = () => answers++
      const load = Array.from({ length: clients }, (_, client) => change(gateway, nodeId, customerId, client, told))
      await Bun.sleep(loadMs * (0.5 + Math.random()))
      await waitUntil('enough answers', () => answers >= answersLeast)
      await (process as GatewayProcess | null)?.kill()
      for (const id of (await Promise.all(load)).flat()) answered.add(id)
    }
    const events = await sql<{ request_id: string }[]>`
      select request_id from admin_approval_events where request_id is not null`
    const written = new Set(events.map(({ request_id }) => request_id))
    expect([...answered].filter((id) => !written.has(id))).toEqual([])
    // The other way round, too: no customer without the event that made it, and no such event without its customer.
    const torn = await sql`
      select c.customer_id, e.target_id from customers c
      full join (select * from admin_approval_events where action = 'customer.create') e on e.target_id = c.customer_id
      where c.customer_id is null or e.target_id is null`
    expect([...torn]).toEqual([])
    const [credits] = await sql`
      select (select count(*)::int from ledger_entries where customer_id = ${customerId} and reason = 'crash') as entries,
        (select count(*)::int from admin_approval_events where action = 'customer.credit.create') as events`
    expect(credits?.entries).toBe(credits?.events)
    const commands = await sql`
      select 1 from admin_approval_events a where a.action in ('node.drain', 'node.resume')
        and not exists (select 1 from admin_command_events c where c.request_id = a.request_id)`
    expect(commands).toHaveLength(0)
    expect((await checkChains(db, ['test-audit-key'])).faults).toEqual([])
    return { rounds, answered: answered.size, unanswered: written.size - answered.size, events: events.length }
  } finally {
    await (process as GatewayProcess | null)?.kill()
    await first.database.drop()
  }
}
