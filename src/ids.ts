/** Ids are `<prefix>_<26-character ULID>` (§1); the prefix is part of the type. */
export type Id<P extends string> = `${P}_${string}`
export type RequestId = Id<'req'>
export type CustomerId = string & { readonly brand?: 'customer' }
export type KeyId = Id<'key'>
export type NodeId = Id<'node'>
export type RuntimeId = Id<'rt'>
export type ProfileId = Id<'mp'>
export type EnrollmentTokenId = Id<'enr'>
export type JoinId = Id<'join'>
export type CommandId = Id<'cmd'>
export type WebhookId = Id<'msg'>
export type StartId = Id<'sta'>
export type AdminId = Id<'adm'>
export type SessionId = Id<'ses'>

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const randomLength = 16
const poolIds = 100
const codes = Uint8Array.from(crockford, (letter) => letter.charCodeAt(0))
const randomBytes = new Uint8Array(randomLength * poolIds)
let pool = ''
let poolAt = 0
/** What the last characters of a time stand for: ids of many moments share all that is before them. */
const tailMs = 32 * 32
const tails = Array.from({ length: tailMs }, (_, at) => crockford.charAt(at >> 5) + crockford.charAt(at & 31))
let headAt = -1
let head = ''

/** One system call and one text for a hundred ids: ids are made on the request path. */
function refill(): void {
  crypto.getRandomValues(randomBytes)
  for (let i = 0; i < randomBytes.length; i++) randomBytes[i] = codes[(randomBytes[i] ?? 0) & 31] ?? 0
  pool = new TextDecoder('latin1').decode(randomBytes)
  poolAt = 0
}

/** 26 characters: 48 bits of Unix milliseconds, 80 bits of randomness (ULID specification). */
export function ulid(nowMs = Date.now()): string {
  const at = Math.floor(nowMs / tailMs)
  if (at !== headAt) {
    headAt = at
    head = ''
    for (let rest = at, i = 0; i < 8; i++) {
      head = crockford.charAt(rest % 32) + head
      rest = Math.floor(rest / 32)
    }
  }
  if (poolAt >= pool.length) refill()
  const random = pool.slice(poolAt, poolAt + randomLength)
  poolAt += randomLength
  return head + (tails[Math.floor(nowMs) - at * tailMs] ?? '') + random
}

export function newId<P extends string>(prefix: P): Id<P> {
  return `${prefix}_${ulid()}`
}

/** Ids a client may choose: no `.` (webhook ids) and no `:` (signed strings), §1. */
export const clientIdPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
/** A model id that a node may report (§22). */
export const modelIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/

/** Of the end of an id, which is random: where it stands in a small table. */
export const idTail = (id: string): number => id.charCodeAt(id.length - 1) + 32 * id.charCodeAt(id.length - 2)

const digits = new Int8Array(128).map((_, code) => crockford.indexOf(String.fromCharCode(code)))

/** Unix ms that an id of ours was made at; NaN: the id is not ours. */
export function idMs(id: string): number {
  const from = id.indexOf('_') + 1
  if (from === 0 || id.length - from !== 10 + randomLength) return Number.NaN
  let ms = 0
  for (let i = from; i < from + 10; i++) {
    const digit = digits[id.charCodeAt(i)] ?? -1
    if (digit === -1) return Number.NaN
    ms = ms * 32 + digit
  }
  return ms
}
