import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { marksMax } from '../../../src/http/reports/marks.ts'
import { AdminMarks } from '../../../src/protocol/wire/admin/traffic.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const node = await fixture(startFakeNode({ models: ['m'] }))
const gateway = await fixture(startTestGateway())

const marksOf = async (query = '') => {
  const body = await json(await gateway.ask('GET', `/v1/admin/traffic/marks${query}`, { as: 'viewer' }))
  expect(Value.Check(AdminMarks, body)).toBe(true)
  return body as unknown as AdminMarks
}
const kinds = ({ marks }: AdminMarks) => marks.map(({ kind }) => kind)
const did = async (method: string, path: string, body: object = {}) => {
  const answer = await gateway.ask(method, path, { as: 'admin', json: { reason: 'test', ...body } })
  const given = await json(answer)
  expect([path, answer.status < 300, answer.ok ? null : given.detail]).toEqual([path, true, null])
  return given
}

test('§32: starts, drains, loads and other prices of a range are marks, and what changes nothing that is seen is none', async () => {
  expect(kinds(await marksOf())).toEqual(['start'])
  const { customer_id } = await did('POST', '/v1/admin/customers', { display_name: 'A' })
  const kind = { visibility: 'private', node_class: 'gpu', privacy_class: 'private' }
  const made = await did('POST', '/v1/admin/nodes', { customer_id, url: node.url, ...kind })
  const id = String(made.node_id)
  await did('POST', `/v1/admin/nodes/${id}/drain`)
  await did('POST', `/v1/admin/nodes/${id}/resume`)
  await did('PATCH', `/v1/admin/nodes/${id}`, { name: 'b' })
  const price = (prompt: string, more: object = {}) =>
    did('PUT', '/v1/admin/models', {
      id: 'm',
      aliases: [],
      prompt_token_price_wei: prompt,
      completion_token_price_wei: '7',
      ...more,
    })
  await price('3')
  await price('3', { name: 'Another name' })
  await price('5')
  const found = await marksOf()
  expect(kinds(found)).toEqual(['start', 'added', 'drain', 'resume', 'price', 'price'])
  expect(found.marks.filter(({ kind }) => kind === 'drain')).toMatchObject([{ node_id: id, model: null, prices: null }])
  expect(found.marks.slice(-1)).toMatchObject([{ kind: 'price', node_id: null, model: 'm', prices: ['5', '7'] }])
  expect([found.complete, found.count]).toEqual([true, 6])

  expect(kinds(await marksOf(`?node_id=${id}`))).toEqual(['start', 'added', 'drain', 'resume'])
  expect(kinds(await marksOf('?node_id=node_none'))).toEqual(['start'])
  expect(kinds(await marksOf('?model=other'))).toEqual(['start', 'added', 'drain', 'resume'])
  const drained = found.marks[2]?.at ?? ''
  expect(kinds(await marksOf(`?from=${drained}`))).toEqual(['drain', 'resume', 'price', 'price'])
  expect(kinds(await marksOf(`?to=${drained}`))).toEqual(['start', 'added'])
  // A price is compared with what it was before the range.
  const [last] = found.marks.slice(-1)
  expect(await marksOf(`?from=${last?.at}`)).toMatchObject({ marks: [{ kind: 'price', prices: ['5', '7'] }] })
  const wrong = await gateway.ask('GET', '/v1/admin/traffic/marks?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', {
    as: 'viewer',
  })
  expect(wrong.status).toBe(400)
})

test('§32: the newest marks are given where there are too many, and starts are kept to a bound', async () => {
  const { sql } = gateway.database
  await sql`insert into gateway_starts select 'sta_' || n, now() - n * interval '1 second' from generate_series(1, 1500) n`
  const peer = await startTestGateway({}, undefined, { beside: gateway })
  const [row] = await sql`select count(*)::int as n from gateway_starts`
  expect(row?.n).toBe(1_000)
  const found = await marksOf()
  expect([found.complete, found.count, kinds(found).at(-1)]).toEqual([false, marksMax, 'start'])
  await peer.stop()
})
