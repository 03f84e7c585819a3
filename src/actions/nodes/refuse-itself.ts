import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { Problem } from '../../errors.ts'
import { isLoopback } from '../../host/loopback.ts'
import { isWildcard, ownAddresses } from '../../host/own-addresses.ts'
import type { ListenAddress } from '../../settings/listen-address.ts'

/** Whether a URL with this host and port reaches what listens there. */
function reaches({ hostname: host, port, protocol }: URL, door: ListenAddress): boolean {
  if (Number(port || (protocol === 'https:' ? 443 : 80)) !== door.port) return false
  if (isWildcard(door.hostname)) return isWildcard(host) || isLoopback(host) || ownAddresses().includes(host)
  if (isLoopback(door.hostname)) return isWildcard(host) || isLoopback(host)
  // A URL has an IPv6 address in brackets.
  return host.replace(/^\[|\]$/g, '') === door.hostname
}

type Doors = Pick<GatewayHandle, 'baseUrl' | 'doors'>

/** Whether a URL leads to the gateway that is asked. */
export function isItself(gateway: Doors, given: string): boolean {
  if (!URL.canParse(given)) return false
  const url = new URL(given)
  const { origin } = new URL(gateway.baseUrl())
  return url.origin === origin || gateway.doors().some((door) => reaches(url, door))
}

/** The gateway would ask itself, again and again. */
export function refuseItself(gateway: Doors, given: string): void {
  if (!isItself(gateway, given)) return
  throw new Problem('invalid_request', { param: 'url', detail: 'This is the address of the gateway itself' })
}
