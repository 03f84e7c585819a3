import { lookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { Problem } from '../errors.ts'
import { TransportError } from '../transport/transport.ts'

/**
 * Where an agent may say that it is to be called: https to an address of the whole internet, or anything inside
 * `SVC_ENDPOINT_NETWORKS` (decisions §22). A name is looked up for each new connection and the connection goes to the
 * address that was checked, so that a name cannot come to mean an inner machine later.
 */
export interface EndpointRules {
  /** The base URL to keep. Rejects with `invalid_request` for what the rules forbid. */
  check(text: string): Promise<string>
  /** The address to connect to. Rejects with `TransportError`: `dns`, or `refused` where the rules forbid it. */
  resolve(hostname: string, tls: boolean): Promise<string>
}

/** IANA's special-purpose registries (decisions §11); IPv6 beyond 2000::/3 is no global unicast at all. */
const specialNetworks = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
]
const mappedPattern = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

const special = listOf(specialNetworks)
const globalUnicast6 = listOf(['2000::/3'])

/** True for an address of the whole internet. */
export function isGlobalAddress(address: string): boolean {
  const plain = mappedPattern.exec(address)?.[1] ?? address
  switch (isIP(plain)) {
    case 4:
      return !special.check(plain, 'ipv4')
    case 6:
      return globalUnicast6.check(plain, 'ipv6') && !special.check(plain, 'ipv6')
    default:
      return false
  }
}

const refused = (detail: string) => new Problem('invalid_request', { param: 'endpoint_url', detail })

function parse(text: string): URL {
  if (!URL.canParse(text)) throw refused('endpoint_url is not a URL')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('endpoint_url must begin with https://')
  const bare = url.username === '' && url.password === '' && url.search === '' && url.hash === ''
  // What the gateway signs is the path as the agent sees it, so nothing may stand in front of it.
  if (!bare || url.pathname !== '/') throw refused('endpoint_url must be a scheme, a host and a port, and nothing more')
  return url
}

type Lookup = (hostname: string) => Promise<readonly string[]>

const systemLookup: Lookup = async (hostname) => (await lookup(hostname, { all: true })).map(({ address }) => address)

/** `networks`: SVC_ENDPOINT_NETWORKS. */
export function createEndpointRules(networks: readonly string[], look: Lookup = systemLookup): EndpointRules {
  const allowed = listOf(networks)
  const isAllowed = (address: string, tls: boolean) => {
    const plain = mappedPattern.exec(address)?.[1] ?? address
    return allowed.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4') || (tls && isGlobalAddress(plain))
  }
  const resolve = async (hostname: string, tls: boolean): Promise<string> => {
    const addresses =
      isIP(hostname) === 0
        ? await look(hostname).catch(() => {
            throw new TransportError('dns')
          })
        : [hostname]
    const [first] = addresses
    if (first === undefined) throw new TransportError('dns')
    // Any of them may be taken by the next connection.
    if (!addresses.every((address) => isAllowed(address, tls))) throw new TransportError('refused')
    return first
  }
  return {
    resolve,
    check: async (text) => {
      const { origin, hostname, protocol } = parse(text)
      try {
        await resolve(hostname.replace(/^\[|\]$/g, ''), protocol === 'https:')
      } catch (error) {
        if (!(error instanceof TransportError)) throw error
        throw refused(
          error.failure === 'dns'
            ? 'The host of endpoint_url cannot be found'
            : 'endpoint_url must be https to a global address, or inside a network that the operator allows',
        )
      }
      return origin
    },
  }
}
