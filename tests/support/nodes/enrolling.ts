import { generateKeyPairSync } from 'node:crypto'
import { toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { keyIdOf, type SigningKey, signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { enrollMessage, transportKeyMessage } from '../../../src/protocol/signing/signatures.ts'
import { agentProtocolVersion, type TransportKey } from '../../../src/protocol/wire/nodes/agent.ts'
import { dayMs, isoTime } from '../../../src/time.ts'

/** What an agent of another make would do, by the published texts alone. */
export function newIdentity(): SigningKey {
  return signingKey(crypto.getRandomValues(new Uint8Array(32)))
}

export function transportKeyOf(signer: SigningKey): TransportKey {
  const { publicKey } = generateKeyPairSync('x25519')
  const raw = new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }).subarray(12))
  const key = {
    key_id: keyIdOf(raw),
    public_key_x25519: toBase64url(raw),
    not_before: isoTime(Date.now()),
    not_after: isoTime(Date.now() + 97 * dayMs),
    state: 'active' as const,
  }
  return { ...key, signature_ed25519: signer.sign(transportKeyMessage(key)) }
}

/** A whole enrolment request; `more` is part of what is signed, `after` is not. */
export function enrollBody(identity: SigningKey, token: string, more: object = {}, after: object = {}): object {
  const unsigned = {
    protocol_version: agentProtocolVersion,
    enrollment_token: token,
    public_key_ed25519: identity.publicKey,
    transport_keys: [transportKeyOf(identity)],
    ...more,
  }
  return { ...unsigned, signature_ed25519: identity.sign(enrollMessage(unsigned)), ...after }
}
