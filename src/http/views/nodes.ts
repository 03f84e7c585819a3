import type { Role } from '../../actors/accounts/access.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { withLoads } from '../../actors/siblings/loads.ts'
import type { Node } from '../../protocol/wire/admin/admin.ts'
import { Loads } from '../../protocol/wire/admin/processes.ts'
import { nodeNow, nodeView } from './admin.ts'

const loadsElsewhere = ({ siblings }: GatewayHandle) => siblings.ask('loads', {}, Loads)

/** The nodes with what all processes of this gateway have running there (§33). */
export async function nodesOfAll(gateway: GatewayHandle, limit: number, role: Role): Promise<readonly Node[]> {
  const live = new Map(gateway.router.nodes().map((node) => [node.nodeId, node]))
  const rows = (await gateway.pool.nodes()).slice(0, limit)
  const own = rows.map((row) => nodeView(row, live.get(row.nodeId) ?? null, role))
  return withLoads(own, await loadsElsewhere(gateway))
}

/** One node likewise. Rejects with `node_not_found`. */
export async function nodeOfAll(gateway: GatewayHandle, nodeId: string, role: Role): Promise<Node> {
  const own = nodeNow(gateway, await gateway.pool.node(nodeId), role)
  const [node = own] = withLoads([own], await loadsElsewhere(gateway))
  return node
}
