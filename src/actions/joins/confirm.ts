import { Node } from '../../protocol/wire/admin/admin.ts'
import { JoinConfirm } from '../../protocol/wire/nodes/join.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'

/** Command line and console compare words before they call it: `nodes join`, and the page of the pool. */
export const confirmJoin = defineAction({
  name: 'node.join.confirm',
  at: 'POST /v1/admin/joins/:join_id/confirm',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Make a node of a computer that asks to join',
  description: 'The body names the six words that the computer shows. With other words nothing happens.',
  tag: 'Nodes (extension)',
  body: JoinConfirm,
  result: Node,
  statuses: [201],
  run: async ({ gateway, views, audit, role, params, body: { reason: _, ...choice } }) => {
    const { nodeId } = await gateway.joining.confirm(params.join_id, camelMembers(choice), audit)
    return views.nodeNow(gateway, await gateway.pool.node(nodeId), role)
  },
})
