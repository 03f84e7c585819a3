import type { Access } from '../../actors/accounts/access.ts'
import { headers, tokenPrefixes } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { HttpContext } from '../frame/context.ts'
import { sentKey } from '../frame/credential.ts'
import { refusedLogin } from '../frame/refused-login.ts'

const missing = (param: string) => new Problem('missing_credentials', { param })

/**
 * Who a request acts for (§4): a gateway key alone, or an operator's role token together with both
 * customer headers. No promise where memory knows the key.
 */
export function inferenceAccess(context: HttpContext, request: Request, address: string): Access | Promise<Access> {
  const { gateway } = context
  const customerId = request.headers.get(headers.customerId)
  const customerToken = request.headers.get(headers.customerToken)
  const token = sentKey(request) ?? context.keyless
  if (token === null) throw missing('header.authorization')
  if (token.startsWith(tokenPrefixes.gateway)) {
    if (customerId !== null || customerToken !== null) {
      const detail = `A gateway key acts for its own customer. Send it without ${headers.customerId} and ${headers.customerToken}.`
      throw new Problem('conflicting_credentials', { detail })
    }
    const found = gateway.access.gatewayKey(token)
    if (found === null) throw refused(context, address, 'invalid_api_key')
    return found instanceof Promise ? whenKnown(found, context, address, 'invalid_api_key') : found
  }
  const role = gateway.access.role(token)
  if (role === null || role === 'viewer') throw refused(context, address, 'invalid_api_key')
  if (customerId === null) throw missing(`header.${headers.customerId}`)
  if (customerToken === null) throw missing(`header.${headers.customerToken}`)
  return whenKnown(gateway.access.customer(customerId, customerToken), context, address, 'invalid_credentials')
}

type Refusal = 'invalid_api_key' | 'invalid_credentials'

const refused = ({ gateway }: HttpContext, address: string, code: Refusal): Problem =>
  refusedLogin(gateway, address, new Problem(code, { param: 'header.authorization' }))

async function whenKnown(
  found: Access | null | Promise<Access | null>,
  context: HttpContext,
  address: string,
  code: Refusal,
): Promise<Access> {
  const access = await found
  if (access === null) throw refused(context, address, code)
  return access
}
