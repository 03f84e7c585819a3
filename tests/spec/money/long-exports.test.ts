import { expect, test } from 'bun:test'
import { newAccount } from '../../support/gateways/accounts.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

/** Around what is read at once, and two whole reads. */
const lengths = [1_000, 1_001, 2_000, 2_001] as const

const table = async (path: string) => {
  const response = await gateway.ask('GET', path, { as: 'admin' })
  expect(response.status).toBe(200)
  const [head = '', ...lines] = (await response.text()).split('\r\n')
  expect(lines.pop()).toBe('')
  const column = head.split(',').findIndex((name) => /(?:entry|event)_id/.test(name))
  return lines.map((line) => line.split(',')[column]?.replaceAll('"', ''))
}
/** Of an id as the rows below have them, newest first. */
const idsDown = (prefix: string, length: number) =>
  Array.from({ length }, (_, at) => `${prefix}_${String(length - at).padStart(6, '0')}`)

test.each(lengths)('§32: exports of a customer with %p debits have a line for each, in their order', async (length) => {
  const { sql } = gateway.database
  const { id: customerId } = await newAccount(gateway)
  await sql`insert into ledger_entries
    (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id)
    select 'e' || ${length}::text || '_' || lpad(i::text, 6, '0'), ${customerId}, 'debit', 1, 0, 0, ${customerId} || i
    from generate_series(1, ${length}::integer) i order by i`
  const wanted = idsDown(`e${length}`, length)
  for (const route of ['usage-export', 'invoice']) {
    const path = `/v1/admin/customers/${customerId}/${route}?format=csv`
    expect(await table(path)).toEqual(wanted)
    expect(await table(`${path}&limit=${length - 1}`)).toEqual(wanted.slice(0, -1))
  }
})

test.each(lengths)(
  '§32: an export of %p events of the audit has a line for each, also of one millisecond',
  async (length) => {
    const { sql } = gateway.database
    const target = `target_${length}`
    await sql`insert into admin_approval_events (event_id, action, category, target_type, target_id, actor_type, actor_role,
      approval_policy, metadata, created_at, writer_id, seq, mac)
    select 'apv' || ${length}::text || '_' || lpad(i::text, 6, '0'), 'node.update', 'node_control', 'node', ${target}, 'role_token', 'admin',
      'admin_approval_policy_v1', '{}', date_trunc('second', now()) + (i / 700) * interval '1 ms', ${target}, i, '\\x00'
    from generate_series(1, ${length}::integer) i`
    const path = `/v1/admin/approval-events?format=csv&target_id=${target}`
    expect(await table(path)).toEqual(idsDown(`apv${length}`, length))
  },
)
