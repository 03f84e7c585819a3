import { expect, test } from 'bun:test'
import { type Added, countsOf, linesOf, walked } from './support/walks/copied-tree.ts'

/** As CONTRIBUTING.md counts them. */
const added: Added = {
  path: 'nodes/rest.ts',
  lines: ["import { restNode } from './nodes/rest.ts'", '  restNode,'],
  text: `import { Type } from '@sinclair/typebox'
import { Node } from '../../protocol/wire/admin/admin.ts'
import { reason, strict } from '../../protocol/wire/shapes.ts'
import { defineAction } from '../frame/define-action.ts'

const minutes = Type.Integer({ minimum: 1, maximum: 60, description: 'How long' })

export const restNode = defineAction({
  name: 'node.rest',
  at: 'POST /v1/admin/nodes/:node_id/rest',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Let a node rest',
  tag: 'Nodes (extension)',
  body: Type.Object({ minutes, reason }, strict),
  result: Node,
  run: async ({ gateway, views, audit, role, params }) =>
    views.nodeNow(gateway, await gateway.pool.by(audit).setNodeAdminState(params.node_id, 'drain'), role),
  command: { words: 'nodes rest', about: 'Let a node rest' },
  form: { on: 'node', verb: 'Rest', title: 'Rest {name}', about: 'It gets no work.', done: '{name} rests.' },
})
`,
}

test('one file and its line in the registry are a route, a policy, an event, a command and a form', async () => {
  const seen = await walked(added, 'added-action.ts')
  expect(seen.refused).toEqual([403, 400])
  expect(seen.policy).toMatchObject([
    { method: 'POST', route_template: '/v1/admin/nodes/:node_id/rest', required_role: 'operator' },
  ])
  expect(seen.openapi).toMatchObject({ summary: 'Let a node rest', tags: ['Nodes (extension)'] })
  expect(JSON.stringify(seen.openapi)).toContain('"maximum":60')
  expect(seen.help).toStartWith('Usage: penstock nodes rest NODE_ID [options]\n\nLet a node rest\n')
  expect(seen.help).toContain('--minutes N')
  expect(seen.told).toMatchObject({ name: 'rack', admin_state: 'draining' })
  expect(seen.events).toMatchObject([{ action: 'node.rest', target_id: seen.nodeId, reason: 'too warm' }])
  expect(seen.form).toMatchObject({
    title: 'Rest rack',
    fields: [{ name: 'minutes', label: 'Minutes', kind: 'number', required: true }],
    sent: [{ action: 'node.rest', method: 'POST', path: `/v1/admin/nodes/${seen.nodeId}/rest`, body: { minutes: 5 } }],
  })
  expect(seen.reference).toEqual(['| `nodes rest NODE_ID` | Let a node rest |'])
})

test('CONTRIBUTING.md counts the lines of an action as they are', () => {
  expect(countsOf('An action of operators')).toEqual([linesOf(added), '2: itself, the registry'])
})
