import { isIP } from 'node:net'
import { networkList } from '../transport/public-address.ts'

/** How many addresses one look may ask. */
const rangeAddressesMax = 1_024
const bitsMin = 22

/** Networks of homes, offices and this computer. 100.64.0.0/10 is that of overlay networks such as Tailscale. */
const privateNetworks = networkList(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '127.0.0.0/8'])
/** Nobody serves models there: this network, link-local (with the metadata of clouds), multicast, reserved. */
const neverAsked = networkList(['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '240.0.0.0/4'])

export const isPrivateAddress = (address: string): boolean =>
  isIP(address) === 4 && privateNetworks.check(address, 'ipv4')

const numberOf = (address: string) => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const textOf = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')

/**
 * The addresses of a network such as `192.168.1.0/24`, without its own name and its broadcast, or one address. A text is
 * what is wrong with it. `anywhere`: addresses of the internet, too.
 */
export function addressesOf(range: string, anywhere: boolean): readonly string[] | string {
  const [address = '', bitsText = '32', more] = range.trim().split('/')
  const bits = Number(bitsText)
  if (isIP(address) === 6) return 'IPv6 networks are too large to be asked address by address. Name an IPv4 network'
  const formed = isIP(address) === 4 && more === undefined && /^\d{1,2}$/.test(bitsText) && bits <= 32
  if (!formed)
    return `A range is an IPv4 network such as 192.168.1.0/24; you sent ${JSON.stringify(range).slice(0, 64)}`
  if (bits < bitsMin) {
    return `A range has at most ${rangeAddressesMax} addresses, which is /${bitsMin}; /${bits} has ${2 ** (32 - bits)}`
  }
  const size = 2 ** (32 - bits)
  const first = Math.floor(numberOf(address) / size) * size
  const edge = size > 2 ? 1 : 0
  const all = Array.from({ length: size - 2 * edge }, (_, at) => textOf(first + edge + at))
  if (all.some((each) => neverAsked.check(each, 'ipv4'))) return 'No computer serves models at these addresses'
  if (!anywhere && !all.every(isPrivateAddress)) {
    return 'These are addresses of the internet, whose owners may mind being asked. Say so (public) to ask them nevertheless'
  }
  return all
}
