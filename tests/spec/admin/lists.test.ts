import { describe, expect, test } from 'bun:test'
import { lists } from '../../../src/actions/registry.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

/** A spreadsheet would run it. */
const formula = '=HYPERLINK("http://x","y")'
const modelId = 'listed-model'

const send = async (method: string, path: string, body: object) =>
  json(await gateway.ask(method, `/v1/admin${path}`, { as: 'admin', json: body }))

const ask = (path: string, as: 'admin' | 'viewer' = 'admin') =>
  gateway.ask('GET', path.replace(':customer_id', customerId), { as })

const gateway = await fixture(startTestGateway())
const customerId = String((await send('POST', '/customers', { display_name: formula })).customer_id)
const owned = { customer_id: customerId, visibility: 'private', node_class: 'standard', privacy_class: 'private' }
await send('POST', '/nodes', { ...owned, url: 'http://127.0.0.1:9', name: 'rack' })
await send('POST', '/enrollment-tokens', { ...owned, name: 'box' })
await send('POST', `/customers/${customerId}/keys`, { name: 'one' })
await send('PUT', '/models', { id: modelId, context_length: 4_096 })

const cellOf = (value: unknown) => {
  const text = value === null || value === undefined ? '' : String(value)
  return text.startsWith('=') ? `'${text}` : text
}

describe('§13, §23: each list is a table, too', () => {
  const withRows = ['customers', 'keys', 'nodes', 'enrollment_tokens', 'models']
  for (const { path, rows, cells, action } of lists.filter((list) => !/:(?:batch|node)_id/.test(list.path))) {
    test(`${action}: the rows of the JSON, a column for each value`, async () => {
      const body = (await json(await ask(path))) as Record<string, Record<string, unknown>[]>
      const table = await ask(`${path}?format=csv`)
      expect(table.headers.get('content-disposition')).toMatch(
        new RegExp(`filename="${rows.replaceAll('_', '-')}-\\d{8}\\.csv"$`),
      )
      const listed = body[rows] ?? []
      // The rules of alerts find something here once they have been evaluated twice.
      if (rows !== 'alerts') expect([rows, listed.length > 0]).toEqual([rows, withRows.includes(rows)])
      const expected = listed.map((row) => cells.map((cell) => cellOf(row[cell])))
      expect(parseCsv(await table.text())).toEqual([[...cells], ...expected])
      // What a row says that is no column is a list or an object, or is about the row itself.
      const left = Object.entries(listed[0] ?? {}).filter(([name]) => !cells.includes(name))
      for (const [name, value] of left.filter(([name]) => name !== 'etag')) {
        expect([name, value === null || typeof value === 'object']).toEqual([name, true])
      }
    })
  }
})

test('§23: a table shows a viewer no more than the list does', async () => {
  const [head = [], row = []] = parseCsv(await (await ask('/v1/admin/nodes?format=csv', 'viewer')).text())
  const shown = Object.fromEntries(head.map((name, at) => [name, row[at]]))
  expect(shown).toMatchObject({ customer_id: '', url: '', visibility: 'private' })
  expect((await ask('/v1/admin/customers?format=csv', 'viewer')).status).toBe(403)
})

test('§23: a table has at most `limit` rows', async () => {
  await send('POST', '/customers', { display_name: 'second' })
  const rows = parseCsv(await (await ask('/v1/admin/customers?limit=1&format=csv')).text())
  expect(rows).toHaveLength(2)
  expect((await ask('/v1/admin/customers?limit=0&format=csv')).status).toBe(400)
})
