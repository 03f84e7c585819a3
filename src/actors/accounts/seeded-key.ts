import { type SigningKey, signingKey } from '../../protocol/signing/ed25519.ts'
import { readSeed } from '../../secrets.ts'

/** `text` is a seed of SVC_ROUTER_KEY or SVC_WEBHOOK_KEY, which the settings have checked. */
export function seededKey(text: string): SigningKey {
  const seed = readSeed(text)
  if (seed === null) throw new Error('A signing seed does not have 32 bytes')
  return signingKey(seed)
}
