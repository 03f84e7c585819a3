import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { Problem } from '../../errors.ts'
import { isGlobalAddress, networkList } from '../../transport/public-address.ts'
import { TransportError } from '../../transport/transport.ts'

/**
 * Decides at which addresses the gateway may call an agent: https to a public address, or anything inside
 * `SVC_ENDPOINT_NETWORKS` (§22). A name is looked up for each new connection, which goes to the checked address, so
 * that the name cannot lead to an internal computer later.
 */
export interface EndpointRules {
  /** Returns the base URL to store. Rejects with `invalid_request` if the rules forbid it. */
  check(text: string): Promise<string>
  /**
   * Returns the address to connect to. Rejects with `TransportError`: `dns`, or `refused` if the rules forbid the
   * address.
   */
  resolve(hostname: string, tls: boolean): Promise<string>
}

const mappedPattern = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

const refused = (detail: string) => new Problem('invalid_request', { param: 'endpoint_url', detail })

function parse(text: string): URL {
  if (!URL.canParse(text)) throw refused('endpoint_url is not a URL')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('endpoint_url must begin with https://')
  const bare = url.username === '' && url.password === '' && url.search === '' && url.hash === ''
  if (url.port === '0') throw refused('endpoint_url names port 0, where nothing can be reached')
  // The gateway signs the path as the agent sees it, so the base URL must not have a path of its own.
  if (!bare || url.pathname !== '/') throw refused('endpoint_url must be a scheme, a host and a port, and nothing more')
  return url
}

type Lookup = (hostname: string) => Promise<readonly string[]>

const systemLookup: Lookup = async (hostname) => (await lookup(hostname, { all: true })).map(({ address }) => address)

/** `networks`: SVC_ENDPOINT_NETWORKS. */
export function createEndpointRules(networks: readonly string[], look: Lookup = systemLookup): EndpointRules {
  const allowed = networkList(networks)
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
    // The next connection may use any of these addresses, so all of them must be allowed.
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
