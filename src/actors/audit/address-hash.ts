import { hmacSha256 } from '../../secrets.ts'

/** How many addresses are remembered with their hash, because a client sends more than one request. */
const rememberedMax = 10_000
const prefixLength = 12

/**
 * The first 12 hex digits of HMAC-SHA-256(key, `"ip\0"‖address`): a plain hash of an address could be reversed by
 * trying all of them (§16).
 */
export function createAddressHash(key: string): (address: string) => string {
  const known = new Map<string, string>()
  return (address) => {
    const found = known.get(address)
    if (found !== undefined) return found
    if (known.size >= rememberedMax) known.clear()
    const hash = hmacSha256(key, `ip\0${address}`).toString('hex').slice(0, prefixLength)
    known.set(address, hash)
    return hash
  }
}
