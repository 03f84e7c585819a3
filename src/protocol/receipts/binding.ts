import { canonicalJson } from '../json/canonical-json.ts'
import { isWellFormed } from '../json/well-formed.ts'
import { sha256 } from '../log/merkle-log.ts'
import { decodeBase64Url, encodeBase64Url } from '../signing/base64.ts'

/** What a receipt v2 holds beside the facts of v1: it binds the receipt to what one client sent and got (§31). */
export interface BoundFacts {
  readonly clientNonce: string
  readonly requestCommitment: string
  /** null: the answer did not arrive whole, or has no canonical form. */
  readonly responseCommitment: string | null
  /** null: of a sealed request, where nothing salts it. */
  readonly upstreamModelCommitment: string | null
}

/** What binds a receipt to one request. `facts`: as `Binding` has it. */
export interface ReceiptBinding {
  readonly clientNonce: string
  readonly saltText: string
  readonly requestCommitment: string
  facts(upstreamModelId: string, choices: readonly object[] | null): BoundFacts
}

/** `X-SVC-Nonce`. */
export const isClientNonce = (text: string) => /^[A-Za-z0-9._~+/=-]{16,64}$/.test(text)
export const isCommitment = (text: string) => /^0x[0-9a-f]{64}$/.test(text)
const saltBytes = 32

type Fields = Readonly<Record<string, unknown>>
const encoder = new TextEncoder()

/** Bytes from which on Bun's own hash is the faster one: of 5 MB it takes 3 ms, WebAssembly 32. A browser has none that answers at once. */
const longBytesMin = 16 * 1024
const hasNative = typeof Bun !== 'undefined'

/** `0x` and the hex SHA-256 of the salt and the text: without the salt guesses cannot be tried against it. */
export function commitment(salt: Uint8Array, text: string): string {
  const bytes = encoder.encode(text)
  if (hasNative && bytes.length >= longBytesMin) {
    return `0x${new Bun.CryptoHasher('sha256').update(salt).update(bytes).digest('hex')}`
  }
  const all = new Uint8Array(salt.length + bytes.length)
  all.set(salt)
  all.set(bytes, salt.length)
  return `0x${sha256(all).toHex()}`
}

const isSaid = ([, value]: readonly [string, unknown]) => value !== null && value !== ''

/**
 * What an answer says, whether it came whole or as a stream: of each choice its index, its finish reason, and the members of
 * its message that are neither null nor empty.
 */
export function answerText(choices: readonly Fields[]): string {
  const said = choices.map(({ index, finish_reason, message }) => ({
    finish_reason,
    index,
    message: Object.fromEntries(Object.entries((message ?? {}) as Fields).filter(isSaid)),
  }))
  return canonicalJson(said)
}

/** null unless it is the base64url of 32 bytes. */
export function readSalt(text: string): Uint8Array | null {
  const salt = decodeBase64Url(text)
  return salt?.length === saltBytes ? salt : null
}

/** The salt of one request, and what it has committed to so far. The salt goes to the client, and to the node that answers. */
export class Binding implements ReceiptBinding {
  constructor(
    readonly clientNonce: string,
    readonly salt: Uint8Array,
    readonly requestCommitment: string,
  ) {}

  /** `body`: the request as the client sent it. */
  static of(clientNonce: string, body: unknown): Binding {
    const salt = crypto.getRandomValues(new Uint8Array(saltBytes))
    return new Binding(clientNonce, salt, commitment(salt, canonicalJson(body)))
  }

  get saltText(): string {
    return encodeBase64Url(this.salt)
  }

  /** `choices`: null where the answer did not arrive whole. */
  facts(upstreamModelId: string, choices: readonly object[] | null): BoundFacts {
    return {
      clientNonce: this.clientNonce,
      requestCommitment: this.requestCommitment,
      responseCommitment:
        choices === null || !isWellFormed(choices)
          ? null
          : commitment(this.salt, answerText(choices as readonly Fields[])),
      upstreamModelCommitment: commitment(this.salt, upstreamModelId),
    }
  }
}
