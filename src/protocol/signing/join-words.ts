import { createHash } from 'node:crypto'
import { wordlist } from '@scure/bip39/wordlists/english'
import { brand } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { joinWordsCount } from './plain-words.ts'

/**
 * How a computer joins without a token: both sides commit to a nonce, then reveal it, and people compare six words that
 * are made of both keys and both nonces (docs/protocol.md, "Joining by six words"). An attacker between the two has
 * one try of 2^66, because a commitment leaves nothing to search for once the other nonce is known.
 */

export type JoinSide = 'node' | 'gateway'

/** One side of a join. Both texts are 32 bytes as base64url. */
export interface JoinPart {
  /** The node's identity, or the key by which the gateway signs to nodes: Ed25519. */
  readonly publicKey: string
  readonly nonce: string
}

const bitsOfWord = 11n

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** What a side tells first: the SHA-256, as base64url, that its later nonce must fit. */
export const joinCommitment = (side: JoinSide, { publicKey, nonce }: JoinPart): string =>
  sha256(`${brand}-join-commit-v1:${side}:${publicKey}:${nonce}`).toString('base64url')

/** Six words of the English list of BIP-39 with spaces between: the first 66 bits of the SHA-256 over both sides. */
export function joinWords(node: JoinPart, gateway: JoinPart): string {
  const text = [node.publicKey, gateway.publicKey, node.nonce, gateway.nonce].join(':')
  const digest = BigInt(`0x${sha256(`${brand}-join-words-v1:${text}`).toString('hex')}`)
  const wordAt = (place: number) =>
    wordlist[Number((digest >> (256n - bitsOfWord * BigInt(place + 1))) & (2n ** bitsOfWord - 1n))] ?? ''
  return Array.from({ length: joinWordsCount }, (_, place) => wordAt(place)).join(' ')
}

const withoutSignature = (signed: object) => {
  const { signature_ed25519: _, ...rest } = signed as { readonly signature_ed25519?: unknown }
  return sha256(canonicalJson(rest)).toString('hex')
}

/** What the node's identity signs of its request to join. */
export const joinMessage = (request: object): string => `${brand}-node-join-v1:${withoutSignature(request)}`

/** What the gateway's key, over which the words were made, signs of the enrolment that it answers with. */
export const joinedMessage = (joinId: string, enrollment: object): string =>
  `${brand}-node-joined-v1:${joinId}:${withoutSignature(enrollment)}`
