import { Elysia } from 'elysia'
import type { Role } from '../../../actors/accounts/access.ts'
import type { NodeChanges, NodeCommand, NodeRecord } from '../../../actors/pool/pool-admin.ts'
import { withLoads } from '../../../actors/siblings/loads.ts'
import { brand } from '../../../brand.ts'
import {
  ModelWish,
  ModelWished,
  Node,
  NodeCreate,
  NodeList,
  NodeUpdate,
  ReasonBody,
} from '../../../protocol/wire/admin/admin.ts'
import { Loads } from '../../../protocol/wire/admin/processes.ts'
import { isoTime } from '../../../time.ts'
import { nodeParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { mayRead, reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { nodeView } from '../../views/admin.ts'
import { nodeProbeRoutes } from './node-probe.ts'
import { refuseItself } from './refuse-itself.ts'

const tags = ['Nodes (extension)']
const listQuery = { limit: limitOf(100, 1_000) }

/** A node's row with what this gateway knows about the node now. */
const withStatus = ({ gateway }: HttpContext, row: NodeRecord, role: Role) =>
  nodeView(row, gateway.router.nodes().find(({ nodeId }) => nodeId === row.nodeId) ?? null, role)

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
        return status(201, withStatus(context, row, actor.role))
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
        const own = withStatus(context, await pool.node(params.node_id), actor.role)
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
        return tagged(set, withStatus(context, row, actor.role))
      },
      {
        action: 'node.update',
        params: nodeParams,
        response: { 200: Node },
        ...reads(NodeUpdate),
        detail: describe({ summary: 'Change a node', tags, etag: 'row' }),
      },
    )
    .delete(
      '/v1/admin/nodes/:node_id',
      async ({ call, params, set }) => {
        await pool.by(call.bare()).deleteNode(params.node_id, call.precondition())
        set.status = 204
      },
      {
        action: 'node.delete',
        params: nodeParams,
        detail: describe({ summary: 'Delete a node and its measurements', tags, empty: true, etag: 'row' }),
      },
    )
}

const commands: readonly (readonly [NodeCommand, string])[] = [
  ['drain', 'The node gets no new work. Running requests may finish'],
  ['resume', 'The node gets new work again'],
  ['revoke', 'Revoke the node and its keys for good'],
]

/** Commands to a node. Repeating one is no error. */
const commandRoutes = (context: HttpContext) => {
  const app = new Elysia().use(admin(context))
  for (const [command, summary] of commands) {
    app.post(
      `/v1/admin/nodes/:node_id/${command}`,
      async ({ body: { audit }, actor, params }) => {
        const row = await context.gateway.pool.by(audit).setNodeAdminState(params.node_id, command)
        return withStatus(context, row, actor.role)
      },
      {
        action: `node.${command}`,
        params: nodeParams,
        response: { 200: Node },
        ...mayRead(ReasonBody),
        detail: describe({ summary, tags }),
      },
    )
  }
  return app
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
    .use(commandRoutes(context))
    .use(modelRoutes(context))
    .use(nodeProbeRoutes(context))
