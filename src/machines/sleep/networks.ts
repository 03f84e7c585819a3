/** IPv4 networks in CIDR form, as agents tell those that their computers are on. */

interface Network {
  readonly from: number
  readonly to: number
}

function addressOf(text: string): number | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  let sum = 0
  for (const part of parts) {
    if (!/^[0-9]{1,3}$/.test(part) || Number(part) > 255) return null
    sum = sum * 256 + Number(part)
  }
  return sum
}

function networkOf(cidr: string): Network | null {
  const [address = '', length = '32'] = cidr.split('/')
  const own = addressOf(address)
  const bits = Number(length)
  if (own === null || !Number.isInteger(bits) || bits < 0 || bits > 32) return null
  const size = 2 ** (32 - bits)
  const from = Math.floor(own / size) * size
  return { from, to: from + size - 1 }
}

const overlaps = (a: Network, b: Network) => a.from <= b.to && b.from <= a.to

/** Whether a network of one list is one of the other, or part of it. An address alone is a network of one computer. */
export function shareNetwork(some: readonly string[], others: readonly string[]): boolean {
  const known = others.flatMap((cidr) => networkOf(cidr) ?? [])
  return some.some((cidr) => {
    const network = networkOf(cidr)
    return network !== null && known.some((other) => overlaps(network, other))
  })
}
