import type { Access } from '../../actors/accounts/access.ts'
import { headers, tokenPrefixes } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { HttpContext } from '../frame/context.ts'
import { sentKey, wrongKind } from '../frame/credential.ts'
import { refusedLogin } from '../frame/refused-login.ts'

const missing = (param: string, token: string | null) =>
  new Problem('missing_credentials', { param, ...(token === null ? noKey : wrongKind(token)) })
const noKey = {
  detail: `No credential was sent. Inference needs a gateway key (${tokenPrefixes.gateway}…) as a bearer token or in x-api-key.`,
}

/**
 * Who a request acts for (§4): a gateway key alone, or an operator's role token together with both
 * customer headers. No promise where memory knows the key.
 */
export function inferenceAccess(context: HttpContext, request: Request, address: string): Access | Promise<Access> {
  const { gateway } = context
  const customerId = request.headers.get(headers.customerId)
  const customerToken = request.headers.get(headers.customerToken)
  const token = sentKey(request) ?? context.keyless
  if (token === null) throw missing('header.authorization', null)
  if (token.startsWith(tokenPrefixes.gateway)) {
    if (customerId !== null || customerToken !== null) throw new Problem('conflicting_credentials')
    const found = gateway.access.gatewayKey(token)
    if (found === null) throw refused(context, address, 'invalid_api_key', token)
    return found instanceof Promise ? whenKnown(found, context, address, 'invalid_api_key', token) : found
  }
  const role = gateway.access.role(token)
  if (role === null || role === 'viewer') throw refused(context, address, 'invalid_api_key', token)
  if (customerId === null) throw missing(`header.${headers.customerId}`, token)
  if (customerToken === null) throw missing(`header.${headers.customerToken}`, token)
  return whenKnown(gateway.access.customer(customerId, customerToken), context, address, 'invalid_credentials', token)
}

type Refusal = 'invalid_api_key' | 'invalid_credentials'

const refused = ({ gateway }: HttpContext, address: string, code: Refusal, token: string): Problem =>
  refusedLogin(gateway, address, new Problem(code, { param: 'header.authorization', ...wrongKind(token) }))

async function whenKnown(
  found: Access | null | Promise<Access | null>,
  context: HttpContext,
  address: string,
  code: Refusal,
  token: string,
): Promise<Access> {
  const access = await found
  if (access === null) throw refused(context, address, code, token)
  return access
}
