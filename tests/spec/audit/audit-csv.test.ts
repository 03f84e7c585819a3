import { expect, test } from 'bun:test'
import { csvText } from '../../../src/http/frame/csv.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

/** What a spreadsheet would run, and what a loose reader would split. */
const payloads = [
  '=HYPERLINK("http://x","y")',
  '+1',
  '-1+cmd|x',
  '@SUM(A1)',
  '＝1',
  '＋1',
  '－1',
  '＠1',
  'a "quoted", word',
  'none of it',
]
let calls = 0
const send = async (method: string, path: string, body: object) => {
  calls++
  return json(await gateway.ask(method, path, { as: 'admin', json: body }))
}

const gateway = await fixture(startTestGateway())
const customerId = String((await send('POST', '/v1/admin/customers', { display_name: 'A', reason: 'r' })).customer_id)
const node = {
  ...{ customer_id: customerId, url: 'http://127.0.0.1:9', visibility: 'private' },
  ...{ privacy_class: 'private', node_class: 'gpu', reason: 'r' },
}
const nodeId = String((await send('POST', '/v1/admin/nodes', node)).node_id)
for (const [index, reason] of payloads.entries()) {
  await send('POST', `/v1/admin/nodes/${nodeId}/${index % 2 === 0 ? 'drain' : 'resume'}`, { reason })
}
await send('POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: '5' })
await gateway.ask('GET', '/v1/admin/nodes?limit=5&b=1')
calls++
await waitFor('the events', async () => {
  await gateway.gateway.audit.writer.flush()
  return gateway.gateway.audit.writer.written() >= calls
})

interface Read {
  readonly json: readonly Readonly<Record<string, unknown>>[]
  readonly csv: readonly (readonly string[])[]
  readonly headers: Headers
}
async function read(kind: string, query: string): Promise<Read> {
  const path = `/v1/admin/${kind}-events?${query}`
  const body = await json(await gateway.ask('GET', path, { as: 'viewer' }))
  const response = await gateway.ask('GET', `${path}&format=csv`, { as: 'viewer' })
  expect(response.status).toBe(200)
  return {
    json: body.events as Read['json'],
    csv: parseCsv(await response.text()),
    headers: response.headers,
  }
}
const formula = /^[=+\-@\t\r\n\u0000＝＋－＠]/
/** A cell as §13 wants it of a value of the JSON. */
const cell = (value: unknown): string => {
  const text = value === null || value === undefined ? '' : Array.isArray(value) ? value.join(' ') : String(value)
  return formula.test(text) ? `'${text}` : text
}
const metadata = (value: unknown) => JSON.stringify(value, Object.keys(value as object).sort())

test('§13: access events as CSV: the columns of the specification, one record per event of the JSON', async () => {
  const { json: events, csv, headers } = await read('access', 'path_template=/v1/admin/nodes')
  const columns = [
    ...['event_id', 'created_at', 'actor_type', 'actor_role', 'actor_hash_prefix', 'method', 'path_template'],
    ...['query_keys', 'status_code', 'outcome', 'error_code', 'user_agent_hash_prefix', 'ip_hash_prefix'],
  ]
  expect(csv).toEqual([columns, ...events.map((event) => columns.map((name) => cell(event[name])))])
  expect(csv[1]?.slice(2)).toEqual([
    ...['unauthenticated', 'viewer', '', 'GET', '/v1/admin/nodes', 'b limit', '401', 'denied', 'missing_credentials'],
    ...[expect.stringMatching(/^[0-9a-f]{12}$/), expect.stringMatching(/^[0-9a-f]{12}$/)],
  ] as string[])
  expect(headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
  const day = new Date().toISOString().slice(0, 10).replaceAll('-', '')
  expect(headers.get('content-disposition')).toBe(`attachment; filename="access-events-${day}.csv"`)
  expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff'])
})

test('§13: approval events as CSV, their metadata canonical, no reason a formula', async () => {
  const { json: events, csv, headers } = await read('approval', 'limit=1000')
  const columns = [
    ...['event_id', 'created_at', 'action', 'category', 'target_type', 'target_id', 'actor_type', 'actor_role'],
    ...['approval_policy', 'reason', 'confirmation', 'metadata'],
  ]
  const expected = events.map((event) =>
    columns.map((name) => (name === 'metadata' ? metadata(event.metadata) : cell(event[name]))),
  )
  expect(csv).toEqual([columns, ...expected])
  const reasons = csv.slice(1).map((record) => record[9] ?? '')
  for (const payload of payloads) expect(reasons).toContain(cell(payload))
  expect(csv.flat().filter((text) => formula.test(text))).toEqual([])
  expect(csv.find((record) => record[2] === 'customer.credit.create')?.slice(9)).toEqual([
    ...['', '', '{"amount_wei":"5","reason_missing":true}'],
  ])
  expect(headers.get('content-disposition')).toMatch(/filename="approval-events-\d{8}\.csv"$/)
})

test('§13: command events as CSV', async () => {
  const { json: events, csv, headers } = await read('command', 'limit=1000')
  const columns = ['event_id', 'created_at', 'command_id', 'action', 'actor_type', 'actor_role', 'reason', 'metadata']
  const expected = events.map((event) =>
    columns.map((name) => (name === 'metadata' ? metadata(event.metadata) : cell(event[name]))),
  )
  expect(csv).toEqual([columns, ...expected])
  expect(csv).toHaveLength(payloads.length + 1)
  expect(csv.slice(1).map((record) => record[6])).toEqual(payloads.toReversed().map(cell))
  expect(headers.get('content-disposition')).toMatch(/filename="command-events-\d{8}\.csv"$/)
})

test('§13: a filter holds for CSV as for JSON; nothing found is the header alone', async () => {
  const { csv } = await read('command', `action=node.drain&limit=2`)
  expect(csv.slice(1).map((record) => record[3])).toEqual(['node.drain', 'node.drain'])
  expect((await read('approval', 'target_id=nobody')).csv).toHaveLength(1)
})

test('§13: format is json or csv in any case, once, and for the role of its endpoint', async () => {
  const status = async (query: string, as?: 'viewer') =>
    (await gateway.ask('GET', `/v1/admin/access-events${query}`, as === undefined ? {} : { as })).status
  for (const good of ['?format=CSV', '?format=Csv', '?format=json', '?format=JSON', '']) {
    expect([good, await status(good, 'viewer')]).toEqual([good, 200])
  }
  for (const bad of ['?format=xml', '?format=', '?format=csv&format=csv', '?format=csvx']) {
    expect([bad, await status(bad, 'viewer')]).toEqual([bad, 400])
  }
  const sheet = await gateway.ask('GET', '/v1/admin/access-events?format=xlsx', { as: 'viewer' })
  expect(await sheet.json()).toMatchObject({
    code: 'invalid_parameter',
    detail: 'format must be json or csv; you sent text of 4 characters.',
  })
  expect(await status('?format=csv')).toBe(401)
})

test('§13: NUL is removed, line ends stay inside of their field', () => {
  const cells = ['\u0000=1', '\t=1', '\r=1', '\n=1', 'a\u0000b', 'a\r\nb,"c"', '', 'x']
  expect(
    parseCsv(
      csvText(
        ['c'],
        [...cells, null, 0, false].map((each) => [each]),
      ),
    ).flat(),
  ).toEqual([...['c', "'=1", "'\t=1", "'\r=1", "'\n=1", 'ab', 'a\r\nb,"c"', '', 'x', '', '0', 'false']])
})

test('§16: an export is an approval event of its own, with its format and window; the CSV has the entries alone', async () => {
  const path = `/v1/admin/customers/${customerId}/usage-export?window_days=7`
  const body = await json(await gateway.ask('GET', path, { as: 'operator' }))
  const { entries } = body.usage as { entries: Record<string, unknown>[] }
  const response = await gateway.ask('GET', `${path}&format=csv`, {
    as: 'operator',
    headers: { 'x-svc-reason': 'tax' },
  })
  const [header = [], ...records] = parseCsv(await response.text())
  expect(header).toEqual([
    ...['entry_id', 'private_job_id', 'receipt_hash', 'kind'],
    ...['amount_wei', 'balance_after_wei', 'reserved_after_wei', 'created_at'],
  ])
  expect(records).toEqual(entries.map((entry) => header.map((name) => cell(entry[name]))))
  expect(entries).toHaveLength(1)
  const missing = await gateway.ask('GET', '/v1/admin/customers/cus_nobody/usage-export', { as: 'operator' })
  expect(missing.status).toBe(404)
  const { events } = (await json(
    await gateway.ask('GET', '/v1/admin/approval-events?action=customer.usage.export', { as: 'viewer' }),
  )) as { events: object[] }
  const event = { category: 'data_export', target_type: 'customer', target_id: customerId, actor_role: 'operator' }
  expect(events).toMatchObject([
    { ...event, reason: 'tax', metadata: { format: 'csv', window_days: 7 } },
    { ...event, reason: null, metadata: { format: 'json', window_days: 7 } },
  ])
})

test('§16: an export whose event cannot be written is not given', async () => {
  const { sql } = gateway.database
  await sql`alter table admin_approval_events rename to away`
  const path = `/v1/admin/customers/${customerId}/usage-export`
  const refused = await gateway.ask('GET', path, { as: 'operator' })
  await sql`alter table away rename to admin_approval_events`
  expect([refused.status, (await json(refused)).code]).toEqual([503, 'service_unavailable'])
})
