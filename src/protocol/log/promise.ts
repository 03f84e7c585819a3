import { brand } from '../../brand.ts'
import { isoTime, secondMs } from '../../time.ts'
import { jsonString } from '../json/json-text.ts'
import { parseProofLines } from './checkpoint.ts'
import { leafHash, rootByInclusion, type TreeHash } from './merkle-log.ts'

/** The log's promise at the end of an answer: the receipt with this hash is in the log within `promisedWithinMs` (§36). */
export interface LogPromise {
  /** Of the receipt: `0x` and 64 hex digits. */
  readonly hash: string
  /** The log's name. */
  readonly log: string
  /** RFC 3339 UTC, three fractional digits. */
  readonly promised_at: string
  /** By the log's key: over the promise itself, or over the root of its batch. */
  readonly signature_ed25519: string
  /** Absent: the promise was signed alone. */
  readonly batch?: {
    readonly index: number
    readonly size: number
    /** From the leaf up, base64. */
    readonly proof: string[]
  }
}

/** What is promised of a receipt. */
export interface Promised {
  readonly log: string
  /** Unix ms. */
  readonly ms: number
  readonly hash: string
}

export const promisedWithinMs = 60 * secondMs
/** Promises below one signature. */
export const batchMax = 256
/** The number of hashes of a path in a tree of this size. */
const pathMax = Math.log2(batchMax)

const encoder = new TextEncoder()

/** `svc-promise-v1:<origin>:<unix ms>:<receipt hash>`. */
export const promiseText = ({ log, ms, hash }: Promised): string => `${brand}-promise-v1:${log}:${ms}:${hash}`
const promiseLeaf = (promised: Promised): TreeHash => leafHash(encoder.encode(promiseText(promised)))
/** What signs all of a batch: `svc-promises-v1:<origin>:<unix ms>:<number of promises>:0x<root>`. */
export const promisesText = ({ log, ms }: Omit<Promised, 'hash'>, size: number, root: TreeHash): string =>
  `${brand}-promises-v1:${log}:${ms}:${size}:0x${root.toHex()}`

const hashPattern = /^0x[0-9a-f]{64}$/
/** As a checkpoint's name, without the colon that parts the text. */
const logPattern = new RegExp(`^${brand}-log/[\\x21-\\x2a\\x2c-\\x39\\x3b-\\x7e]{1,100}$`)

/** The bytes that the log's key has signed, and what they promise; null for what is no promise. */
export interface ReadPromise {
  readonly promised: Promised
  readonly message: Uint8Array
  readonly signature: string
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})

/** null unless a path of the batch leads from the promise to a root. */
function batchText(promised: Promised, batch: unknown): string | null {
  const { index, size, proof } = fieldsOf(batch)
  if (typeof index !== 'number' || typeof size !== 'number' || size > batchMax || !Array.isArray(proof)) return null
  const path = proof.length > pathMax ? null : parseProofLines(proof.map(textOf))
  const root = path === null ? null : rootByInclusion(promiseLeaf(promised), index, size, path)
  return root === null ? null : promisesText(promised, size, root)
}

/** Reads an untrusted `svc.receipt`. */
export function readPromise(given: unknown): ReadPromise | null {
  const { hash, log, promised_at: at, signature_ed25519: signature, batch } = fieldsOf(given)
  const ms = Date.parse(textOf(at))
  const promised = { log: textOf(log), ms, hash: textOf(hash) }
  if (!hashPattern.test(promised.hash) || !logPattern.test(promised.log)) return null
  if (!Number.isSafeInteger(ms) || isoTime(ms) !== at || typeof signature !== 'string') return null
  const text = batch === undefined ? promiseText(promised) : batchText(promised, batch)
  return text === null ? null : { promised, message: encoder.encode(text), signature }
}

/**
 * Writes promises as they stand in `svc.receipt`, a `LogPromise` as JSON, below one signature. `batch`: the member of that name with the comma
 * before it; empty for one that was signed alone. By hand: it is on the path of every billed answer.
 */
export function promiseWriter(
  { log, ms }: Omit<Promised, 'hash'>,
  signature: string,
): (hash: string, batch: string) => string {
  const shared = `","log":${jsonString(log)},"promised_at":"${isoTime(ms)}","signature_ed25519":"${signature}"`
  return (hash, batch) => `{"hash":"${hash}${shared}${batch}}`
}
