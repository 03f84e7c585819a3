import { type AnyElysia, Elysia } from 'elysia'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { modelsElsewhere, ollamaBase, otherTag } from '../../actors/operations/ollama-place.ts'
import { ollamaListens } from '../../actors/operations/registry.ts'
import { idleSeconds } from '../../listener/connection-clock.ts'
import { createHttpContext, type HttpContext } from '../frame/context.ts'
import { RouteTable } from '../frame/route-table.ts'
import { gatewayDoor } from '../gateway-door.ts'
import { inferenceDoors } from '../inference/inference-door.ts'
import { problems } from '../plugins/problems.ts'
import { requestId } from '../plugins/request-id.ts'
import { inferenceRoutes } from '../routes/inference.ts'
import { modelRoutes } from '../routes/models.ts'
import { tokenCountRoutes } from '../routes/tokens/token-counts.ts'
import { hostFault } from './allowed-hosts.ts'
import { ollamaModels } from './ollama-models.ts'

/** Each route has a bound of its own. */
const bunBodyBytesMax = Number.MAX_SAFE_INTEGER

const elsewhere = () => {
  throw modelsElsewhere()
}

/** What manages models. The agent and the model servers do, and an operator: no client of inference. */
const management = (context: HttpContext) => {
  const app = new Elysia().use(requestId(context))
  for (const verb of ['pull', 'push', 'create', 'copy']) app.post(`${ollamaBase}/${verb}`, elsewhere, { parse: 'none' })
  return app
    .delete(`${ollamaBase}/delete`, elsewhere, { parse: 'none' })
    .head(`${ollamaBase}/blobs/:digest`, elsewhere)
    .post(`${ollamaBase}/blobs/:digest`, elsewhere, { parse: 'none' })
}

/** Ollama's interface to the same gateway, and what an Ollama has of OpenAI's and Anthropic's (§28). `hostname`: where it listens. */
export function createOllamaApp(gateway: GatewayHandle, hostname: string): AnyElysia {
  const { SVC_OLLAMA_KEY: keyless, SVC_ALLOWED_HOSTS: allowed } = gateway.config
  const context = createHttpContext(gateway, () => app.server, {
    speaks: 'ollama',
    keyless,
    jsonTypes: 'any of programs',
    otherName: otherTag,
  })
  let mounted: RouteTable | null = null
  const table = (): RouteTable => {
    mounted ??= new RouteTable(app)
    return mounted
  }
  const doors = inferenceDoors(context, ollamaListens)
  const posts = new Map(
    [...doors].map(([path, door]) => [path, (request: Request) => door.handle(request, app.server)]),
  )
  const { wrap, adapter } = gatewayDoor(context, table, () => app.server, posts, hostFault(hostname, allowed))
  const app: AnyElysia = new Elysia({
    adapter,
    serve: { maxRequestBodySize: bunBodyBytesMax, idleTimeout: idleSeconds, development: false },
    handler: { standardHostname: false },
  })
    // Elysia's type describes the result of the handler, but it means the handler.
    .wrap(wrap as never)
    .use(problems(context, table))
    .use(inferenceRoutes(doors))
    .use(tokenCountRoutes(context))
    .use(modelRoutes(context))
    .use(ollamaModels(context))
    .use(management(context))
  return app
}
