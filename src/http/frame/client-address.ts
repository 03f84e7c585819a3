import { BlockList, isIP } from 'node:net'

/** The part of Bun's server that knows the other end of a connection. */
export interface PeerDirectory {
  requestIP(request: Request): { readonly address: string } | null
}

const unknownAddress = '0.0.0.0'
const forwardedHopsMax = 16

/** `::ffff:10.0.0.1` and `10.0.0.1` are one address. */
function plainAddress(text: string): string {
  return text.startsWith('::ffff:') ? text.slice('::ffff:'.length) : text
}

function trustedList(proxies: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of proxies) {
    const [address = '', bits] = entry.split('/')
    const version = isIP(address)
    if (version === 0) continue
    const family = version === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

/**
 * Whose request it is. `X-Forwarded-For` counts only from a proxy of `SVC_TRUSTED_PROXIES` (addresses or networks), and
 * then the last entry that is not itself such a proxy: everything left of it can be made up by the client.
 */
export function createClientAddress(
  proxies: readonly string[],
): (request: Request, server: PeerDirectory | null) => string {
  const trusted = trustedList(proxies)
  const isTrusted = (address: string) => {
    const version = isIP(address)
    return version !== 0 && trusted.check(address, version === 6 ? 'ipv6' : 'ipv4')
  }
  return (request, server) => {
    const peer = plainAddress(server?.requestIP(request)?.address ?? unknownAddress)
    if (proxies.length === 0 || !isTrusted(peer)) return peer
    const hops = (request.headers.get('x-forwarded-for') ?? '').split(',').slice(-forwardedHopsMax)
    let client = peer
    for (const hop of hops.reverse()) {
      const address = plainAddress(hop.trim())
      if (isIP(address) === 0) break
      client = address
      if (!isTrusted(address)) break
    }
    return client
  }
}
