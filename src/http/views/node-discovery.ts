import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { sameServer } from '../../actors/node-rows/node-checks.ts'
import { adminObject } from '../../brand.ts'
import { addressesOf } from '../../discovery/address-range.ts'
import { announcedServers } from '../../discovery/announced-servers.ts'
import { knownPorts, type ServerPlace } from '../../discovery/server-looks.ts'
import { Problem } from '../../errors.ts'
import type { Discovered, DiscoveryAsk } from '../../protocol/wire/nodes/discovery.ts'

/** How long the network may take to name its servers, ms. */
const announcedMs = 2_500

/** Refuses with `invalid_request`, before anything is asked. */
function rangePlaces(range: string, { ports, public: anywhere = false }: DiscoveryAsk): readonly ServerPlace[] {
  const addresses = addressesOf(range, anywhere)
  if (typeof addresses === 'string') throw new Problem('invalid_request', { param: 'range', detail: addresses })
  return addresses.flatMap((address) => [...new Set(ports ?? knownPorts)].map((port) => ({ address, port })))
}

/** Asks the network, but for `except`, and registers nothing. */
export async function discovered(
  gateway: Pick<GatewayHandle, 'pool' | 'serverLooks'>,
  ask: DiscoveryAsk,
  except: (url: string) => boolean,
  signal: AbortSignal,
): Promise<Discovered> {
  const places =
    ask.range === undefined
      ? (looking: AbortSignal) => announcedServers({ withinMs: announcedMs, signal: looking })
      : rangePlaces(ask.range, ask)
  const { asked, found } = await gateway.serverLooks.look({ places, signal, except })
  const nodes = (await gateway.pool.nodes()).filter(({ adminState }) => adminState !== 'revoked')
  return {
    object: `${adminObject}node_discovery`,
    asked,
    servers: found.map(({ url, kind, models }) => ({
      url,
      runtime_kind: kind,
      models: [...models],
      node_id: nodes.find((row) => sameServer(row.url, url))?.nodeId ?? null,
    })),
  }
}
