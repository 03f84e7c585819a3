import type { GatewayHandle } from '../../../actors/gateway-handle.ts'
import { withLoads } from '../../../actors/siblings/loads.ts'
import { Node, NodeList } from '../../../protocol/wire/admin/admin.ts'
import { Loads } from '../../../protocol/wire/admin/processes.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { nodeNow, nodeView } from '../../views/admin.ts'

const tag = 'Nodes (extension)'
const loadsElsewhere = ({ siblings }: GatewayHandle) => siblings.ask('loads', {}, Loads)

/** Nodes (§22, §23). */
export const nodeList = report({
  action: 'node.list',
  tag,
  summary: 'List the nodes with their state and load',
  query: { limit: limitOf(100, 1_000) },
  response: NodeList,
  read: async ({ gateway }, { role, query: { limit }, nowMs }) => {
    const live = new Map(gateway.router.nodes().map((node) => [node.nodeId, node]))
    const rows = (await gateway.pool.nodes()).slice(0, limit)
    const own = rows.map((row) => nodeView(row, live.get(row.nodeId) ?? null, role))
    return listOf('node_list', 'nodes', [...withLoads(own, await loadsElsewhere(gateway))], nowMs)
  },
})

export const nodeRead = report({
  action: 'node.read',
  tag,
  summary: 'Read a node',
  query: {},
  response: Node,
  etag: 'row',
  read: async ({ gateway }, { role, params }) => {
    const own = nodeNow(gateway, await gateway.pool.node(params.node_id ?? ''), role)
    const [node = own] = withLoads([own], await loadsElsewhere(gateway))
    return node
  },
})
