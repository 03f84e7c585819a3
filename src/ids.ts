/** Ids are `<prefix>_<26-character ULID>` (decisions §1); the prefix is part of the type. */
export type Id<P extends string> = `${P}_${string}`
export type RequestId = Id<'req'>
export type CustomerId = string & { readonly brand?: 'customer' }
export type KeyId = Id<'key'>
export type NodeId = Id<'node'>
export type RuntimeId = Id<'rt'>
export type ProfileId = Id<'mp'>

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const randomPool = new Uint8Array(1600)
let poolOffset = randomPool.length
let stampMs = -1
let stamp = ''

/** 26 characters: 48 bits of Unix milliseconds, 80 bits of randomness (ULID specification). */
export function ulid(nowMs = Date.now()): string {
  if (nowMs !== stampMs) {
    stampMs = nowMs
    stamp = ''
    for (let rest = nowMs, i = 0; i < 10; i++) {
      stamp = crockford.charAt(rest % 32) + stamp
      rest = Math.floor(rest / 32)
    }
  }
  // One system call fills a hundred ids: ids are made on the request path.
  if (poolOffset + 16 > randomPool.length) {
    crypto.getRandomValues(randomPool)
    poolOffset = 0
  }
  let random = ''
  for (const end = poolOffset + 16; poolOffset < end; poolOffset++) {
    random += crockford.charAt((randomPool[poolOffset] ?? 0) & 31)
  }
  return stamp + random
}

export function newId<P extends string>(prefix: P): Id<P> {
  return `${prefix}_${ulid()}`
}

/** Ids a client may choose: no `.` (webhook ids) and no `:` (signed strings), decisions §1. */
export const clientIdPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
/** A model id that a node may report (decisions §22). */
export const modelIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/
