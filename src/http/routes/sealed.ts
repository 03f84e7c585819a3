import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import { NodeEvidence } from '../../actors/sealed/node-evidence.ts'
import { sealedKeyConfig, sealedNodes } from '../../actors/sealed/sealed-nodes.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { modelIdPattern } from '../../ids.ts'
import { encapsulatedKeyHeader, keyConfigPath, keyConfigType } from '../../protocol/sealed/ehbp.ts'
import { SealedNodeList, sealedNodesPath } from '../../protocol/wire/inference/sealed.ts'
import { tagsMax } from '../../protocol/wire/inference/tags.ts'
import { filter, text } from '../../protocol/wire/query.ts'
import { nodeParams } from '../frame/admin-input.ts'
import type { HttpContext, RouteCall } from '../frame/context.ts'
import { namedOrigin } from '../frame/cors.ts'
import { asks } from '../frame/query.ts'
import { describe } from '../frame/route-table.ts'
import { inferenceAccess } from '../inference/inference-access.ts'
import { sealedDoors } from '../inference/sealed-door.ts'
import { requestId } from '../plugins/request-id.ts'

const query = {
  model: text(modelIdPattern.source, 'the id of a model', 'The model that the sealed request will name'),
  nonce: filter(
    'Your own random number: the first 8 nodes are asked for evidence of their computers, made for it',
    '^[0-9a-f]{64}$',
    '64 hexadecimal digits in lower case',
  ),
}
const tags = ['Sealed inference (extension)']
const security = [{ GatewayKey: [] }]

/** Who asks. It counts toward the rate of its account, and toward no quota. */
async function asker(context: HttpContext, { exchange, request, set }: RouteCall): Promise<Access> {
  const { gateway } = context
  Object.assign(set.headers, namedOrigin(gateway.config.SVC_CORS_ORIGINS, request))
  const access = await inferenceAccess(context, request, exchange.address)
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  Object.assign(set.headers, await gateway.limits.takeRequest(access))
  set.headers['cache-control'] = 'private, no-store'
  return access
}

const header = (name: string, required: boolean, description: string) => ({
  name,
  in: 'header' as const,
  required,
  description,
  schema: { type: 'string' as const },
})

const parameters = [
  header(encapsulatedKeyHeader, true, 'The client’s half of the key exchange: 32 bytes, hex'),
  header(headers.sealedModel, true, 'The model that the sealed body asks for'),
  header(headers.maxTokens, false, 'The bound of the sealed body, where the account has a quota of tokens'),
  header(headers.session, false, 'Which requests belong together'),
  header(headers.tags, false, `What the request is counted by: at most ${tagsMax}, with commas between them`),
]

/** Which nodes there are, and their keys. */
const sealedReads = (context: HttpContext) => {
  const { gateway } = context
  const evidence = new NodeEvidence(gateway.router)
  return new Elysia()
    .use(requestId(context))
    .get(
      sealedNodesPath,
      async (asked) => {
        const { model, nonce } = asked.query
        const nodes = await sealedNodes(gateway, await asker(context, asked), model)
        if (nonce === null) return { object: 'list' as const, data: [...nodes] }
        const { connections } = context
        const { signal } = asked.request
        const data = await connections.lifted(asked.request, () => evidence.added(nodes, nonce, signal))
        return { object: 'list' as const, data }
      },
      {
        ...asks(query),
        response: { 200: SealedNodeList },
        detail: {
          ...describe({
            summary: 'List the nodes that can answer a model sealed',
            description:
              'Your own nodes with an agent, in the order in which to try them, with the keys that their identities signed. Compare each fingerprint with what the node prints: a client need not trust the gateway.',
            tags,
          }),
          security,
        },
      },
    )
    .get(
      `${sealedNodesPath}/:node_id${keyConfigPath}`,
      async (asked) => {
        const config = await sealedKeyConfig(gateway, await asker(context, asked), asked.params.node_id)
        return new Response(config as Uint8Array<ArrayBuffer>, { headers: { 'content-type': keyConfigType } })
      },
      {
        params: nodeParams,
        detail: {
          ...describe({
            summary: 'Read a node’s key configuration',
            description: 'One `key_config` of RFC 9458, as EHBP publishes it. It is not signed: compare it elsewhere.',
            tags,
          }),
          security,
        },
      },
    )
}

/** The relay. Its door writes its own line of the log. */
function sealedPosts(context: HttpContext) {
  const app = new Elysia()
  for (const door of sealedDoors(context)) {
    app.post(door.route, ({ request, server, params }) => door.handle(request, server, params.node_id), {
      parse: 'none',
      params: nodeParams,
      detail: {
        ...describe({ summary: door.operation.summary, description: door.operation.description, tags }),
        parameters,
        requestBody: {
          required: true,
          description: 'EHBP frames',
          content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
        },
        security,
      },
    })
  }
  return app
}

/** Sealed inference (§38). */
export const sealedRoutes = (context: HttpContext) => new Elysia().use(sealedReads(context)).use(sealedPosts(context))
