import { defineAction } from '../frame/define-action.ts'
import { nodeOperand, tag } from './node.ts'

export const deleteNode = defineAction({
  name: 'node.delete',
  at: 'DELETE /v1/admin/nodes/:node_id',
  policy: { role: 'admin', category: 'node_control', target: 'node' },
  summary: 'Delete a node and its measurements',
  tag,
  etag: 'row',
  run: ({ gateway, audit, params, precondition }) => gateway.pool.by(audit).deleteNode(params.node_id, precondition()),
  command: {
    words: 'nodes remove',
    about: 'Delete a node and its measurements',
    operands: [nodeOperand],
    after: 'revoke',
    asks: 'Delete {NODE}? Its running requests will fail.',
    prints: 'Removed {NODE}.',
    gives: { removed: true },
  },
})
