import { createHash, randomBytes } from 'node:crypto'
import { brand, receiptVersion } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'

/**
 * The exact texts that are signed between gateway and nodes (§§10, 14, 22), as UTF-8. Each begins with its
 * purpose, so that no signature can be used for another.
 */

/** A signed request older or newer than this is refused. */
export const freshSeconds = 300
/** How long a nonce is remembered: both ends of the window. */
export const nonceKeptSeconds = 2 * freshSeconds

/** 16 random bytes as 22 characters. */
export function newNonce(): string {
  return randomBytes(16).toString('base64url')
}

export const isNonce = (text: string) => /^[A-Za-z0-9_-]{22}$/.test(text)

/** `timestamp`: Unix seconds. */
export function isFresh(timestamp: number, nowMs: number): boolean {
  return Math.abs(nowMs / 1_000 - timestamp) <= freshSeconds
}

const sha256Hex = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const emptyHash = sha256Hex('')

export interface RouterRequest {
  readonly nodeId: string
  readonly method: string
  /** Path and query exactly as in the request line. */
  readonly path: string
  /** The bytes as sent; null where there are none. */
  readonly body: string | Uint8Array | null
}

/** The values of `X-SVC-Router-Signature` except the signature. */
export interface RouterStamp {
  readonly kid: string
  /** Unix seconds. */
  readonly timestamp: number
  readonly nonce: string
}

export function routerMessage(request: RouterRequest, stamp: Omit<RouterStamp, 'kid'>): string {
  const { nodeId, method, path, body } = request
  const hash = body === null || body.length === 0 ? emptyHash : sha256Hex(body)
  return `${brand}-router-v1:${nodeId}:${method}:${path}:${hash}:${stamp.timestamp}:${stamp.nonce}`
}

export interface RouterSignature extends RouterStamp {
  readonly signature: string
}

/** The value of `X-SVC-Router-Signature`. */
export function formatRouterSignature({ kid, timestamp, nonce, signature }: RouterSignature): string {
  return `kid=${kid},ts=${timestamp},nonce=${nonce},sig=${signature}`
}

const routerSignaturePattern =
  /^kid=([A-Za-z0-9_-]{1,64}),ts=([0-9]{1,12}),nonce=([A-Za-z0-9_-]{22}),sig=([A-Za-z0-9_-]{86}={0,2})$/

/** null for any other form, two headers in one included. */
export function parseRouterSignature(header: string): RouterSignature | null {
  const [, kid, timestamp, nonce, signature] = routerSignaturePattern.exec(header) ?? []
  if (kid === undefined || timestamp === undefined || nonce === undefined || signature === undefined) return null
  return { kid, timestamp: Number(timestamp), nonce, signature }
}

/**
 * The text that a node signs to open its tunnel; `routerKid`: the router's key by which the node recognises the
 * gateway.
 */
export function tunnelMessage(nodeId: string, timestamp: number, nonce: string, routerKid: string): string {
  return `${brand}-node-tunnel-v1:${nodeId}:${timestamp}:${nonce}:${routerKid}`
}

const canonicalHash = (signed: object) => {
  const { signature_ed25519: _, ...rest } = signed as { readonly signature_ed25519?: unknown }
  return sha256Hex(canonicalJson(rest))
}

/** `body`: the enrolment request; its own signature does not count. */
export function enrollMessage(body: object): string {
  return `${brand}-node-enroll-v1:${canonicalHash(body)}`
}

/**
 * `nonce`: the gateway's, so that an old status cannot be replayed. The status's own signature is not part of the text.
 */
export function statusMessage(nodeId: string, nonce: string, status: object): string {
  return `${brand}-node-status-v1:${nodeId}:${nonce}:${canonicalHash(status)}`
}

/** Where a node says that its earnings go from now on. `payee`: in lower case; `signedAt`: RFC 3339 UTC, three fractional digits. */
export const payeeMessage = (nodeId: string, payee: string, signedAt: string): string =>
  `${brand}-payee-v1:${nodeId}:${payee}:${signedAt}`

/** What a node has found wrong with its gateway (§36). `signedAt`: RFC 3339 UTC, three fractional digits. */
export const nodeAlarmsMessage = (nodeId: string, signedAt: string, alarms: readonly object[]): string =>
  `${brand}-node-alarms-v1:${nodeId}:${signedAt}:${sha256Hex(canonicalJson(alarms))}`

/** The gateway's announcement of the keys by which it is known, newest first; each of them signs it. */
export function routerKeysMessage(keys: readonly object[]): string {
  return `${brand}-router-keys-v1:${sha256Hex(canonicalJson(keys))}`
}

/** The transport key's JCS form without its signature (§10). */
export function transportKeyMessage(key: object): string {
  const { signature_ed25519: _, ...rest } = key as { readonly signature_ed25519?: unknown }
  return canonicalJson(rest)
}

/** A node's own request to the gateway, as `POST /v1/node-agent/keys/verify`; `body`: the bytes as sent. */
export function keyVerifyMessage(nodeId: string, timestamp: number, nonce: string, body: string | Uint8Array): string {
  return `${brand}-node-keys-verify-v1:${nodeId}:${timestamp}:${nonce}:${sha256Hex(body)}`
}

/** A node's request for the files of a model that is copied to it (§39). `path`: exactly as in the request line. */
export const copyMessage = (nodeId: string, timestamp: number, nonce: string, path: string, ticket: string): string =>
  `${brand}-node-copy-v1:${nodeId}:${timestamp}:${nonce}:${path}:${sha256Hex(ticket)}`

/** `receiptHash`: `0x` and 64 hex digits. `version`: the receipt's own `v`. */
export function receiptMessage(receiptHash: string, version: string = receiptVersion): Uint8Array {
  return Buffer.concat([Buffer.from(`${version}:`), Buffer.from(receiptHash.slice(2), 'hex')])
}

/** A node's question for its payouts: the decoded values of the query, and defaults for those that are missing (§15). */
export interface AskedReport {
  readonly nodeId: string
  readonly windowDays: string
  readonly limit: string
  readonly signedAt: string
  readonly nonce: string
}

/** The text that the node signs for it. */
export const payoutReportMessage = ({ nodeId, windowDays: days, limit, signedAt, nonce }: AskedReport) =>
  `${brand}-node-payout-report-v1:${nodeId}:${days}:${limit}:${signedAt}:${nonce}`
