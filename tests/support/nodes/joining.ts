import { randomBytes } from 'node:crypto'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { joinCommitment, joinMessage, joinWords } from '../../../src/protocol/signing/join-words.ts'
import { newIdentity, transportKeyOf } from './enrolling.ts'

/** What an agent of another make would do to join, by the published texts alone. */
export interface Joiner {
  readonly identity: SigningKey
  readonly nonce: string
  /** A whole request; `more` is part of what is signed, `after` is not. */
  request(more?: object, after?: object): object
  words(gateway: { readonly publicKey: string; readonly nonce: string }): string
}

export function newJoiner(identity = newIdentity()): Joiner {
  const nonce = randomBytes(32).toString('base64url')
  const part = { publicKey: identity.publicKey, nonce }
  return {
    identity,
    nonce,
    request: (more = {}, after = {}) => {
      const unsigned = {
        protocol_version: 1,
        public_key_ed25519: identity.publicKey,
        transport_keys: [transportKeyOf(identity)],
        name: 'attic',
        commitment: joinCommitment('node', part),
        timestamp: Math.floor(Date.now() / 1_000),
        ...more,
      }
      return { ...unsigned, signature_ed25519: identity.sign(joinMessage(unsigned)), ...after }
    },
    words: (gateway) => joinWords(part, gateway),
  }
}
