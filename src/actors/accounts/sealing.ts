import { chacha20poly1305 } from '@noble/ciphers/chacha.js'

/** Encrypts secrets that the gateway must read again: node API keys and webhook secrets (§25). */
export interface Sealing {
  /** Returns nonce ‖ ciphertext, encrypted with the newest key. */
  seal(purpose: SealPurpose, secret: string): Buffer
  /** Returns null if no key decrypts it, or if it was sealed for another purpose. */
  open(purpose: SealPurpose, sealed: Uint8Array): string | null
}

/**
 * The purpose is authenticated with the ciphertext (AAD), so that one kind of secret cannot be put in the place of
 * another.
 */
export type SealPurpose =
  | 'node_api_key'
  | 'node_wake_secret'
  | 'webhook_secret'
  | 'oidc_sign_in'
  | 'oidc_session'
  | 'model_copy'

const nonceBytes = 12
const keyBytes = 32

/** `keys`: SVC_SECRETS_KEY, newest first; each is 32 bytes in base64url, or any text, of which the SHA-256 is taken. */
export function createSealing(keys: readonly string[]): Sealing {
  const all = keys.map(keyOf)
  const [newest] = all
  if (newest === undefined) throw new Error('The gateway has no key that encrypts secrets')
  return {
    seal: (purpose, secret) => {
      const nonce = crypto.getRandomValues(new Uint8Array(nonceBytes))
      const cipher = chacha20poly1305(newest, nonce, Buffer.from(purpose))
      return Buffer.concat([nonce, cipher.encrypt(Buffer.from(secret))])
    },
    open: (purpose, sealed) => {
      for (const key of all) {
        try {
          const cipher = chacha20poly1305(key, sealed.subarray(0, nonceBytes), Buffer.from(purpose))
          return Buffer.from(cipher.decrypt(sealed.subarray(nonceBytes))).toString()
        } catch {
          // This key does not fit, or we did not seal the secret.
        }
      }
      return null
    },
  }
}

function keyOf(text: string): Uint8Array {
  const bytes = /^[A-Za-z0-9_-]{43}$/.test(text) ? Buffer.from(text, 'base64url') : null
  if (bytes?.length === keyBytes) return bytes
  return new Bun.CryptoHasher('sha256').update(text).digest()
}
