import { networkInterfaces } from 'node:os'

const wildcards = new Set(['0.0.0.0', '::', '[::]'])
/** Named in the welcome; a computer with containers has dozens. */
const addressesMax = 8

/** A program bound to a wildcard listens on every address of the computer, but clients cannot use it as an address. */
export const isWildcard = (host: string) => wildcards.has(host)

type Interfaces = ReturnType<typeof networkInterfaces>

const homely = /^(?:192\.168\.|10\.|172\.(?:1[6-9]|2[0-9]|3[01])\.)/
/** Bridges of containers and virtual machines: other computers do not reach them. */
const bridge = /^(?:docker|br-|veth|virbr|cni|flannel|podman|lxc)/

/** IPv4 addresses by which other computers may reach this one, the likeliest first. */
export function ownAddresses(interfaces: Interfaces = networkInterfaces()): readonly string[] {
  const found = Object.entries(interfaces).flatMap(([name, entries = []]) =>
    entries
      .filter(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))
      .map(({ address }) => ({ address, rank: (bridge.test(name) ? 2 : 0) + (homely.test(address) ? 0 : 1) })),
  )
  return found
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ address }) => address)
    .slice(0, addressesMax)
}

/** Every address of this computer as a URL has it, for who must know them all. */
export const everyAddress = (interfaces: Interfaces = networkInterfaces()): readonly string[] =>
  Object.values(interfaces).flatMap((entries = []) =>
    entries.map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address)),
  )

/** The address at which a caller reaches a listener on `host`. */
export const callableHost = (host: string, interfaces?: Interfaces): string =>
  isWildcard(host) ? (ownAddresses(interfaces)[0] ?? '127.0.0.1') : host
