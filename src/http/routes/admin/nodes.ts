import { Node } from '../../../protocol/wire/admin/admin.ts'
import { report } from '../../reports/report.ts'
import { nodeOfAll } from '../../views/nodes.ts'

export const nodeRead = report({
  action: 'node.read',
  tag: 'Nodes (extension)',
  summary: 'Read a node',
  query: {},
  response: Node,
  etag: 'row',
  read: ({ gateway }, { role, params }) => nodeOfAll(gateway, params.node_id ?? '', role),
})
