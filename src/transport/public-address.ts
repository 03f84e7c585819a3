import { BlockList, isIP } from 'node:net'

/** IANA's special-purpose registries (§11); IPv6 beyond 2000::/3 is no global unicast at all. */
const specialNetworks = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
]

/** Networks (`10.0.0.0/8`) and single addresses. */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

const special = networkList(specialNetworks)
const globalUnicast6 = networkList(['2000::/3'])

/**
 * True for an address of the whole internet. Mapped, compatible and translated forms of IPv4 in IPv6 lie outside of
 * 2000::/3 and are refused like anything else there: a public name resolves to its IPv4 address as such.
 */
export function isGlobalAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !special.check(address, 'ipv4')
    case 6:
      return !address.includes('%') && globalUnicast6.check(address, 'ipv6') && !special.check(address, 'ipv6')
    default:
      return false
  }
}
