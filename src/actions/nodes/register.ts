import { Node, NodeCreate } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'
import { tag } from './node.ts'
import { refuseItself } from './refuse-itself.ts'

export const registerNode = defineAction({
  name: 'node.register',
  at: 'POST /v1/admin/nodes',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Register an OpenAI-compatible server as a node',
  tag,
  body: NodeCreate,
  result: Node,
  statuses: [201],
  run: async ({ gateway, views, audit, role, body: { reason: _, ...node } }) => {
    refuseItself(gateway, node.url)
    return views.nodeNow(gateway, await gateway.pool.by(audit).registerRuntimeNode(camelMembers(node)), role)
  },
})
