import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import { tokenPrefixes } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { noSuchModel } from '../../protocol/validation/missing-model.ts'
import { AnthropicModelList, DescribedModelList, type Model, ModelList } from '../../protocol/wire/inference/models.ts'
import type { HttpContext, HttpExchange, RouteCall } from '../frame/context.ts'
import { corsHeaders, namedOrigin } from '../frame/cors.ts'
import { sentKey } from '../frame/credential.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'
import { anthropicModel, callableRoutes, modelsOf, publicRoutes } from '../views/visible-models.ts'

const publicCache = 'public, max-age=5'
const keyedCache = 'private, no-store'

async function authenticate(context: HttpContext, exchange: HttpExchange, token: string): Promise<Access> {
  const { gateway } = context
  const access = token.startsWith(tokenPrefixes.gateway) ? await gateway.access.gatewayKey(token) : null
  if (access === null) {
    const refused = new Problem('invalid_api_key', { param: 'header.authorization' })
    throw refusedLogin(gateway, exchange.address, refused)
  }
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  return access
}

/**
 * A credential must be valid if it is sent. A wrong key never gets the public list instead. `emptyPublicly`: without one,
 * where nothing is public, the list is empty, as the specification has it; else it asks for a key.
 */
async function visible(
  context: HttpContext,
  { exchange, request, set }: RouteCall,
  emptyPublicly: boolean,
): Promise<readonly Model[]> {
  const { gateway } = context
  const token = sentKey(request) ?? context.keyless
  set.headers.vary = 'Authorization'
  if (token !== null) {
    set.headers['cache-control'] = keyedCache
    const origins = gateway.config.SVC_CORS_ORIGINS
    Object.assign(set.headers, namedOrigin(origins, request))
    set.headers.vary = origins.length === 0 ? 'Authorization' : 'Authorization, Origin'
    const access = await authenticate(context, exchange, token)
    return modelsOf(callableRoutes(gateway.router.table(), access, Date.now()), access.customerId)
  }
  const limits = await gateway.limits.takePublic(gateway.hashAddress(exchange.address))
  const models = modelsOf(publicRoutes(gateway.router.table(), Date.now()), null)
  if (models.length === 0 && !emptyPublicly) throw nothingPublic()
  Object.assign(set.headers, corsHeaders, limits)
  set.headers['cache-control'] = publicCache
  return models
}

/** An empty list would say that nothing is served here. */
const nothingPublic = () =>
  new Problem('missing_credentials', {
    param: 'header.authorization',
    detail: `No model of this gateway is public. Send a gateway key (${tokenPrefixes.gateway}…) as a bearer token or in x-api-key, and the list shows what it may call.`,
    headers: corsHeaders,
  })

const isAnthropic = (request: Request) => request.headers.has('anthropic-version')

/** The whole list is one page, so no client has to ask for more. */
function anthropicList(models: readonly Model[]): AnthropicModelList {
  const data = models.map(anthropicModel)
  return { data, has_more: false, first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null }
}

/** An id may have slashes in it, encoded or not, and be meant without its tag. */
function oneOf({ gateway, otherName }: HttpContext, models: readonly Model[], path: string): Model {
  const named = decoded(path)
  const names = [named, gateway.router.table().latest.get(named)?.[0]?.modelId, otherName?.(named)]
  const [model] = names.flatMap((name) => models.find(({ id }) => id === name) ?? [])
  if (model === undefined) {
    const known = models.map(({ id }) => id)
    throw new Problem('model_not_found', { param: 'model', detail: noSuchModel(named, known) })
  }
  return model
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

const listed = <M>(data: M[]) => ({ object: 'list' as const, data })
const bare = ({ id, object, created, owned_by }: Model) => ({ id, object, created, owned_by })
const described = (summary: string, description: string, tags: readonly string[]) => ({
  ...describe({ summary, description, tags }),
  security: [{}, { GatewayKey: [] }],
})
const whatIsListed =
  'Without a key: the chat models that public nodes serve. With a gateway key: all models that it may call now, on the nodes of its account and, where account and key allow it, on those of others.'
const tags = ['Inference (extension)']

/** Endpoint 3. Below the other base URL the list also says what the models are for (§28). */
export const modelRoutes = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    .get(
      '/v1/api/models',
      async (asked) => {
        const models = await visible(context, asked, true)
        return isAnthropic(asked.request) ? anthropicList(models) : listed(models.map(bare))
      },
      {
        response: { 200: Type.Union([ModelList, AnthropicModelList]) },
        detail: described('List models', whatIsListed, ['Inference']),
      },
    )
    .get(
      '/v1/models',
      async (asked) => {
        const models = await visible(context, asked, false)
        return isAnthropic(asked.request) ? anthropicList(models) : listed([...models])
      },
      {
        response: { 200: Type.Union([DescribedModelList, AnthropicModelList]) },
        detail: described('List models and what they are for', whatIsListed, tags),
      },
    )
    .get(
      '/v1/api/models/*',
      async (asked) => bare(oneOf(context, await visible(context, asked, true), asked.params['*'])),
      {
        detail: { ...described('Describe a model', whatIsListed, tags), hide: true },
      },
    )
    .get(
      '/v1/models/*',
      async (asked) => {
        const model = oneOf(context, await visible(context, asked, false), asked.params['*'])
        return isAnthropic(asked.request) ? anthropicModel(model) : model
      },
      { detail: { ...described('Describe a model', whatIsListed, tags), hide: true } },
    )
