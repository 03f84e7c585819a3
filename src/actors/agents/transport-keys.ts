import { publicKeyOf, sealedKeyMessage } from '../../protocol/sealed/sealed-key.ts'
import { fromBase64url } from '../../protocol/signing/base64url.ts'
import { keyIdOf, type VerifyKey } from '../../protocol/signing/ed25519.ts'
import { transportKeyMessage } from '../../protocol/signing/signatures.ts'
import type { TransportKey } from '../../protocol/wire/nodes/agent.ts'
import type { SealedKey } from '../../protocol/wire/nodes/sealed-key.ts'

/**
 * True if the node itself signed the key and the key's id is its hash (§10). The gateway offers only such keys to
 * clients.
 */
export function isOwnTransportKey(key: TransportKey, identity: VerifyKey): boolean {
  const raw = fromBase64url(key.public_key_x25519, 32)
  return raw !== null && keyIdOf(raw) === key.key_id && identity.verify(transportKeyMessage(key), key.signature_ed25519)
}

/** The same for a key of sealed inference (§38). */
export function isOwnSealedKey(key: SealedKey, identity: VerifyKey): boolean {
  return publicKeyOf(key) !== null && identity.verify(sealedKeyMessage(key), key.signature_ed25519)
}
