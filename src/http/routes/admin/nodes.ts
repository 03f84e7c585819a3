import { Elysia } from 'elysia'
import { withLoads } from '../../../actors/siblings/loads.ts'
import { brand } from '../../../brand.ts'
import { Node, NodeList } from '../../../protocol/wire/admin/admin.ts'
import { Loads } from '../../../protocol/wire/admin/processes.ts'
import { isoTime } from '../../../time.ts'
import { nodeParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { nodeNow, nodeView } from '../../views/admin.ts'
import { nodeProbeRoutes } from './node-probe.ts'

const tags = ['Nodes (extension)']
const listQuery = { limit: limitOf(100, 1_000) }

const collectionRoutes = (context: HttpContext) => {
  const { pool, router } = context.gateway
  return new Elysia().use(admin(context)).get(
    '/v1/admin/nodes',
    async ({ actor, query: { limit } }) => {
      const live = new Map(router.nodes().map((node) => [node.nodeId, node]))
      const rows = (await pool.nodes()).slice(0, limit)
      const own = rows.map((row) => nodeView(row, live.get(row.nodeId) ?? null, actor.role))
      const nodes = [...withLoads(own, await context.gateway.siblings.ask('loads', {}, Loads))]
      return {
        object: `${brand}.admin.node_list` as const,
        generated_at: isoTime(Date.now()),
        count: nodes.length,
        nodes,
      }
    },
    {
      action: 'node.list',
      response: { 200: NodeList },
      ...asks(listQuery),
      detail: describe({ summary: 'List the nodes with their state and load', tags }),
    },
  )
}

const itemRoutes = (context: HttpContext) => {
  const { pool } = context.gateway
  return new Elysia().use(admin(context)).get(
    '/v1/admin/nodes/:node_id',
    async ({ actor, params, set }) => {
      const own = nodeNow(context.gateway, await pool.node(params.node_id), actor.role)
      const [node = own] = withLoads([own], await context.gateway.siblings.ask('loads', {}, Loads))
      return tagged(set, node)
    },
    {
      action: 'node.read',
      params: nodeParams,
      response: { 200: Node },
      detail: describe({ summary: 'Read a node', tags, etag: 'row' }),
    },
  )
}

/** Nodes (§22, §23). */
export const nodeRoutes = (context: HttpContext) =>
  new Elysia().use(collectionRoutes(context)).use(itemRoutes(context)).use(nodeProbeRoutes(context))
