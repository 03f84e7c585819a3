import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { Problem } from '../../errors.ts'

/**
 * The refusal of a wrong credential. It counts against its address, and an address with too many failures gets 429 for
 * further ones; a valid credential is never asked (§4). `address`: the client's, not hashed.
 */
export function refusedLogin(gateway: GatewayHandle, address: string, problem: Problem): Problem {
  const hash = gateway.hashAddress(address)
  if (gateway.failedLogins.failed(hash) === 'refuse') return problem
  return new Problem('rate_limited', { retryAfterSeconds: gateway.failedLogins.lockedSeconds(hash) ?? 1 })
}
