import { Elysia } from 'elysia'
import type { Role } from '../../../actors/accounts/access.ts'
import type { NodeChanges, NodeCommand, NodeRecord } from '../../../actors/pool/pool-admin.ts'
import { brand } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { isLoopback } from '../../../host/loopback.ts'
import { Node, NodeCreate, NodeList, NodeUpdate, ReasonBody } from '../../../protocol/wire/admin/admin.ts'
import { isoTime } from '../../../time.ts'
import { nodeParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { limitOf, readQuery } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { nodeView } from '../../views/admin.ts'

const tags = ['Nodes (extension)']
const listQuery = { limit: limitOf(100, 1_000) }

/** What this gateway knows of a node right now, beside its row. */
const withStatus = ({ gateway }: HttpContext, row: NodeRecord, role: Role) =>
  nodeView(row, gateway.router.nodes().find(({ nodeId }) => nodeId === row.nodeId) ?? null, role)

/** The gateway would ask itself, again and again. */
function refuseItself({ gateway }: HttpContext, given: string): void {
  if (!URL.canParse(given)) return
  const [url, own] = [new URL(given), new URL(gateway.baseUrl())]
  const here = isLoopback(url.hostname) && isLoopback(own.hostname) && url.port === own.port
  if (url.origin !== own.origin && !here) return
  throw new Problem('invalid_request', { param: 'url', detail: 'This is the address of the gateway itself' })
}

function changesOf(body: typeof NodeUpdate.static): NodeChanges {
  return {
    ...(body.url === undefined ? {} : { url: body.url }),
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.api_key === undefined ? {} : { apiKey: body.api_key }),
    ...(body.visibility === undefined ? {} : { visibility: body.visibility }),
    ...(body.node_class === undefined ? {} : { nodeClass: body.node_class }),
    ...(body.privacy_class === undefined ? {} : { privacyClass: body.privacy_class }),
    ...(body.payout_address === undefined ? {} : { payoutAddress: body.payout_address }),
  }
}

const collectionRoutes = (context: HttpContext) => {
  const { pool, router } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/nodes',
      async ({ actor, request }) => {
        const { limit } = readQuery(request.url, listQuery)
        const live = new Map(router.nodes().map((node) => [node.nodeId, node]))
        const rows = (await pool.nodes()).slice(0, limit)
        const nodes = rows.map((row) => nodeView(row, live.get(row.nodeId) ?? null, actor.role))
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
        detail: describe({ summary: 'List nodes with their state and load', tags, query: listQuery }),
      },
    )
    .post(
      '/v1/admin/nodes',
      async ({ actor, call, status }) => {
        const { body, audit } = await call.body(NodeCreate)
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
        detail: describe({ summary: 'Register an OpenAI-compatible server as a node', tags, body: NodeCreate }),
      },
    )
}

const itemRoutes = (context: HttpContext) => {
  const { pool } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/nodes/:node_id',
      async ({ actor, params }) => withStatus(context, await pool.node(params.node_id), actor.role),
      {
        action: 'node.read',
        params: nodeParams,
        response: { 200: Node },
        detail: describe({ summary: 'Read a node', tags }),
      },
    )
    .patch(
      '/v1/admin/nodes/:node_id',
      async ({ actor, call, params }) => {
        const { body, audit } = await call.body(NodeUpdate)
        return withStatus(context, await pool.by(audit).updateNode(params.node_id, changesOf(body)), actor.role)
      },
      {
        action: 'node.update',
        params: nodeParams,
        response: { 200: Node },
        detail: describe({ summary: 'Change a node', tags, body: NodeUpdate }),
      },
    )
    .delete(
      '/v1/admin/nodes/:node_id',
      async ({ call, params, set }) => {
        await pool.by(call.bare()).deleteNode(params.node_id)
        set.status = 204
      },
      {
        action: 'node.delete',
        params: nodeParams,
        detail: describe({ summary: 'Delete a node and what was measured of it', tags, empty: true }),
      },
    )
}

const commands: readonly (readonly [NodeCommand, string])[] = [
  ['drain', 'No new work; what runs may finish'],
  ['resume', 'Take new work again'],
  ['revoke', 'Never again: the node and its keys are dead'],
]

/** What is told to a node; saying it twice is no fault. */
const commandRoutes = (context: HttpContext) => {
  const app = new Elysia().use(admin(context))
  for (const [command, summary] of commands) {
    app.post(
      `/v1/admin/nodes/:node_id/${command}`,
      async ({ actor, call, params }) => {
        const { audit } = await call.optionalBody(ReasonBody)
        const row = await context.gateway.pool.by(audit).setNodeAdminState(params.node_id, command)
        return withStatus(context, row, actor.role)
      },
      {
        action: `node.${command}`,
        params: nodeParams,
        response: { 200: Node },
        detail: describe({ summary, tags, optionalBody: ReasonBody }),
      },
    )
  }
  return app
}

/** Nodes (§22, §23). */
export const nodeRoutes = (context: HttpContext) =>
  new Elysia().use(collectionRoutes(context)).use(itemRoutes(context)).use(commandRoutes(context))
