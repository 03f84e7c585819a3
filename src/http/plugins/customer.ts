import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { requestId } from './request-id.ts'

async function authenticate({ gateway }: HttpContext, exchange: HttpExchange, request: Request): Promise<Access> {
  const customerId = request.headers.get(headers.customerId)
  const token = request.headers.get(headers.customerToken)
  if (customerId === null) throw new Problem('missing_credentials', { param: `header.${headers.customerId}` })
  if (token === null) throw new Problem('missing_credentials', { param: `header.${headers.customerToken}` })
  const access = await gateway.access.customer(customerId, token)
  // An unknown id and a wrong token get the same answer.
  if (access === null) throw refusedLogin(gateway, exchange.address, new Problem('invalid_credentials'))
  exchange.proved = true
  return access
}

/** Routes for a customer with both of its headers (§4). The route itself checks whether the account is active. */
export const customer = (context: HttpContext) =>
  new Elysia({ name: 'customer' })
    .use(requestId(context))
    .derive(async ({ exchange, request }) => ({ access: await authenticate(context, exchange, request) }))
    .as('scoped')
