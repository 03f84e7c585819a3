import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import { tokenPrefixes } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { ModelList } from '../../protocol/wire/inference/models.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { corsHeaders } from '../frame/cors.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { modelsRoute } from '../plugins/problems.ts'
import { requestId } from '../plugins/request-id.ts'
import { accountRoutes, modelList, publicRoutes } from '../views/visible-models.ts'

const bearerPattern = /^bearer +(\S+)$/i
const publicCache = 'public, max-age=5'
const keyedCache = 'private, no-store'

async function authenticate(context: HttpContext, exchange: HttpExchange, authorization: string): Promise<Access> {
  const { gateway } = context
  const token = bearerPattern.exec(authorization)?.[1] ?? ''
  const access = token.startsWith(tokenPrefixes.gateway) ? await gateway.access.gatewayKey(token) : null
  if (access === null) {
    const param = 'header.authorization'
    throw refusedLogin(gateway, exchange.address, new Problem('invalid_api_key', { param }))
  }
  exchange.keyId = access.keyId
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  return access
}

/** Endpoint 3. A credential must be valid if it is sent. A wrong key never gets the public list instead. */
export const modelRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).get(
    modelsRoute,
    async ({ exchange, request, set }) => {
      const { gateway } = context
      const authorization = request.headers.get('authorization')
      set.headers.vary = 'Authorization'
      if (authorization !== null) {
        set.headers['cache-control'] = keyedCache
        const access = await authenticate(context, exchange, authorization)
        return modelList(accountRoutes(gateway.router.table(), access, Date.now()))
      }
      Object.assign(set.headers, corsHeaders)
      Object.assign(set.headers, await gateway.limits.takePublic(gateway.hashAddress(exchange.address)))
      set.headers['cache-control'] = publicCache
      return modelList(publicRoutes(gateway.router.table(), Date.now()))
    },
    {
      response: { 200: ModelList },
      detail: {
        ...describe({
          summary: 'List models',
          description:
            'Without a key: the models that public nodes serve. With a gateway key: the models that the nodes of its account serve now.',
          tags: ['Inference'],
        }),
        security: [{}, { gateway: [] }],
      },
    },
  )
