import { Node, NodeUpdate } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'
import { tag } from './node.ts'
import { refuseItself } from './refuse-itself.ts'

export const updateNode = defineAction({
  name: 'node.update',
  at: 'PATCH /v1/admin/nodes/:node_id',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Change a node',
  tag,
  body: NodeUpdate,
  result: Node,
  etag: 'row',
  run: async ({ gateway, views, audit, role, params, body: { reason: _, ...changes }, precondition }) => {
    if (changes.url !== undefined) refuseItself(gateway, changes.url)
    const row = await gateway.pool.by(audit).updateNode(params.node_id, camelMembers(changes), precondition())
    return views.nodeNow(gateway, row, role)
  },
})
