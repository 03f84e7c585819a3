import { createHmac } from 'node:crypto'
import { encodeBase64 } from './base64.ts'
import { fromBase64url } from './base64url.ts'
import type { SigningKey } from './ed25519.ts'

/** Standard Webhooks: prefixes of a shared secret and of a public key. */
const webhookSecretPrefix = 'whsec_'
const webhookKeyPrefix = 'whpk_'

export interface SignedWebhook {
  readonly webhookId: string
  /** Unix seconds of the attempt. */
  readonly timestamp: number
  readonly body: string
}

/** `whpk_` and the standard base64 of the key, as receivers configure it. */
export function webhookPublicKey(key: SigningKey): string {
  return webhookKeyPrefix + encodeBase64(fromBase64url(key.publicKey, 32) ?? new Uint8Array())
}

/**
 * The value of `webhook-signature` (Standard Webhooks): a `v1a` of the service's key, one more per key that was
 * replaced, and a `v1` per secret, newest first. The official libraries take the first `v1` that fits.
 */
export function webhookSignature(
  webhook: SignedWebhook,
  keys: readonly SigningKey[],
  secrets: readonly string[],
): string {
  const text = `${webhook.webhookId}.${webhook.timestamp}.${webhook.body}`
  const asymmetric = keys.map((key) => `v1a,${encodeBase64(fromBase64url(key.sign(text), 64) ?? new Uint8Array())}`)
  const symmetric = secrets.map((secret) => {
    const bytes = Buffer.from(secret.slice(webhookSecretPrefix.length), 'base64')
    return `v1,${createHmac('sha256', bytes).update(text).digest('base64')}`
  })
  return [...asymmetric, ...symmetric].join(' ')
}
