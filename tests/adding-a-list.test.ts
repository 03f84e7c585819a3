import { expect, test } from 'bun:test'
import { type Added, countsOf, linesOf, walked } from './support/walks/copied-tree.ts'

/** As CONTRIBUTING.md counts them. */
const added: Added = {
  path: 'nodes/names.ts',
  lines: ["import { namedNodes } from './nodes/names.ts'", '  namedNodes,'],
  text: `import { NodeList } from '../../protocol/wire/admin/admin.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const namedNodes = defineList({
  name: 'node.name.list',
  at: 'GET /v1/admin/named-nodes',
  role: 'operator',
  category: 'node_control',
  summary: 'List the nodes by their names',
  tag: 'Nodes (extension)',
  query: { limit: limitOf(2, 5) },
  result: NodeList,
  rows: 'nodes',
  read: async ({ gateway, views, role, query: { limit } }) =>
    (await views.nodesOfAll(gateway, limit, role)).toSorted((a, b) => a.name.localeCompare(b.name)),
  command: { words: 'nodes names', columns: [['NAME', ({ name }) => name]], empty: 'There are no nodes.' },
})
`,
}

test('one file and its line in the registry are a route, a table, a policy and a command', async () => {
  const seen = await walked(added, 'added-list.ts')
  expect(seen.refused).toEqual([403, 400])
  expect(seen.rows).toMatchObject({ object: 'svc.admin.node_list', count: 1, nodes: [{ visibility: 'private' }] })
  const [head = '', ...rows] = String(seen.csv).trimEnd().split('\r\n')
  expect(head).toStartWith('"node_id","customer_id","name"')
  expect(rows.map((row) => row.split(',')[2])).toEqual(['"box"', '"rack"'])
  expect(seen.policy).toMatchObject([
    { method: 'GET', route_template: '/v1/admin/named-nodes', required_role: 'operator' },
  ])
  expect(seen.openapi).toMatchObject({ summary: 'List the nodes by their names', tags: ['Nodes (extension)'] })
  expect(JSON.stringify(seen.openapi)).toContain('text/csv')
  expect(seen.help).toStartWith('Usage: penstock nodes names [options]\n\nList the nodes by their names\n')
  expect(seen.help).toContain('How many to show at most (default 2)')
  expect(String(seen.printed).trimEnd().split('\n')).toHaveLength(2)
  expect(seen.printed).toStartWith('NAME')
  expect(seen.reference).toEqual(['| `nodes names` | List the nodes by their names |'])
})

test('CONTRIBUTING.md counts the lines of a list as they are', () => {
  expect(countsOf('A list of operators')).toEqual([linesOf(added), '2: itself, the registry'])
})
