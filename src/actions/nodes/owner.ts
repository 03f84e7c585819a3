import { Problem } from '../../errors.ts'
import { Node, NodeOwner } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { nodeOperand, tag } from './node.ts'

export const changeNodeOwner = defineAction({
  name: 'node.owner.change',
  at: 'POST /v1/admin/nodes/:node_id/owner',
  policy: { role: 'admin', category: 'node_control', target: 'node', requirement: 'reason_and_second_approver' },
  summary: 'Give a node without an agent to another customer',
  description:
    'The node must be drained, with nothing running on it. It becomes private, and its API key and payout address are removed. An agent has joined for its owner: its computer joins again.',
  tag,
  body: NodeOwner,
  result: Node,
  etag: 'row',
  run: async ({ gateway, views, audit, role, params, body, precondition }) => {
    const { in_flight: running } = await views.nodeOfAll(gateway, params.node_id, role)
    if (running > 0) {
      const detail = `${running} ${running === 1 ? 'request still runs' : 'requests still run'} there`
      throw new Problem('invalid_state', { detail })
    }
    const row = await gateway.pool.by(audit).changeNodeOwner(params.node_id, body.customer_id, precondition())
    return views.nodeNow(gateway, row, role)
  },
  command: {
    words: 'nodes owner',
    about: 'Give a drained node without an agent to another customer',
    operands: [
      nodeOperand,
      { name: 'CUSTOMER_ID', is: 'customer_id', about: 'The new owner’s id, as `customers list` shows it' },
    ],
    after: 'set',
    asks: 'Give {NODE} to {CUSTOMER_ID}? It becomes private, and its API key and payout address are removed.',
    prints: (node, print) => print.nodes([node]),
  },
})
