import { Elysia } from 'elysia'
import type { NodeChanges } from '../../../actors/pool/pool-admin.ts'
import { withLoads } from '../../../actors/siblings/loads.ts'
import { brand } from '../../../brand.ts'
import { ModelWish, ModelWished, Node, NodeCreate, NodeList, NodeUpdate } from '../../../protocol/wire/admin/admin.ts'
import { Loads } from '../../../protocol/wire/admin/processes.ts'
import { isoTime } from '../../../time.ts'
import { nodeParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { nodeNow, nodeView } from '../../views/admin.ts'
import { nodeProbeRoutes } from './node-probe.ts'
import { refuseItself } from './refuse-itself.ts'

const tags = ['Nodes (extension)']
const listQuery = { limit: limitOf(100, 1_000) }

function changesOf(body: typeof NodeUpdate.static): NodeChanges {
  return {
    ...(body.url === undefined ? {} : { url: body.url }),
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.api_key === undefined ? {} : { apiKey: body.api_key }),
    ...(body.visibility === undefined ? {} : { visibility: body.visibility }),
    ...(body.node_class === undefined ? {} : { nodeClass: body.node_class }),
    ...(body.privacy_class === undefined ? {} : { privacyClass: body.privacy_class }),
    ...(body.rank === undefined ? {} : { rank: body.rank }),
    ...(body.external === undefined ? {} : { external: body.external }),
    ...(body.payout_address === undefined ? {} : { payoutAddress: body.payout_address }),
  }
}

const collectionRoutes = (context: HttpContext) => {
  const { pool, router } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
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
    .post(
      '/v1/admin/nodes',
      async ({ body: { body, audit }, actor, status }) => {
        refuseItself(context, body.url)
        const { customer_id, reason: _, ...rest } = body
        const row = await pool.by(audit).registerRuntimeNode({
          ...changesOf(rest),
          customerId: customer_id,
          url: rest.url,
          visibility: rest.visibility,
          nodeClass: rest.node_class,
          privacyClass: rest.privacy_class,
        })
        return status(201, nodeNow(context.gateway, row, actor.role))
      },
      {
        action: 'node.register',
        response: { 201: Node },
        ...reads(NodeCreate),
        detail: describe({ summary: 'Register an OpenAI-compatible server as a node', tags }),
      },
    )
}

const itemRoutes = (context: HttpContext) => {
  const { pool } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
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
    .patch(
      '/v1/admin/nodes/:node_id',
      async ({ body: { body, audit }, actor, call, params, set }) => {
        if (body.url !== undefined) refuseItself(context, body.url)
        const row = await pool.by(audit).updateNode(params.node_id, changesOf(body), call.precondition())
        return tagged(set, nodeNow(context.gateway, row, actor.role))
      },
      {
        action: 'node.update',
        params: nodeParams,
        response: { 200: Node },
        ...reads(NodeUpdate),
        detail: describe({ summary: 'Change a node', tags, etag: 'row' }),
      },
    )
}

const wishes = [
  ['load', 'Bring a model into the memory of a node, where its server can be told (§30)'],
  ['unload', 'Let a model leave the memory of a node when its work is done'],
] as const

/** The node's own file says what is run for a model; nothing of that comes from here. */
const modelRoutes = (context: HttpContext) => {
  const app = new Elysia().use(admin(context))
  for (const [wish, summary] of wishes) {
    app.post(
      `/v1/admin/nodes/:node_id/models/${wish}`,
      async ({ body: { body, audit }, params, status }) => {
        await context.gateway.modelWishes.tell(audit, params.node_id, wish, body.model)
        return status(202, { status: 'accepted', node_id: params.node_id, model: body.model } as const)
      },
      {
        action: `node.model.${wish}`,
        params: nodeParams,
        response: { 202: ModelWished },
        ...reads(ModelWish),
        detail: describe({ summary, tags }),
      },
    )
  }
  return app
}

/** Nodes (§22, §23). */
export const nodeRoutes = (context: HttpContext) =>
  new Elysia()
    .use(collectionRoutes(context))
    .use(itemRoutes(context))
    .use(modelRoutes(context))
    .use(nodeProbeRoutes(context))
