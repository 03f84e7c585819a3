import { type Static, Type } from '@sinclair/typebox'
import { formed, literals, strict } from '../shapes.ts'
import { instant, signature } from './agent-shapes.ts'

export const sealedKeysMax = 3

/** A key to which sealed inference is sealed: an own one, never a transport key, because EHBP forbids sharing. */
export const SealedKey = Type.Object(
  {
    kind: Type.Literal('ehbp'),
    key_id: formed('^[A-Za-z0-9_-]{22}$', '16 bytes as base64url, which is 22 characters', {
      description: 'The first 16 bytes of the SHA-256 of the public key, base64url',
    }),
    key_config: formed('^[A-Za-z0-9_-]{55}$', '41 bytes as base64url, which is 55 characters', {
      description: 'One `key_config` of RFC 9458, base64url: DHKEM(X25519), HKDF-SHA256, AES-256-GCM',
      examples: ['AAAg_iFNCP__6WET-eyAUS5nZ6y8I6IrK3hImE6ksYlsgwoABAABAAI'],
    }),
    not_before: instant,
    not_after: instant,
    state: literals(['active', 'retiring', 'revoked']),
    signature_ed25519: signature,
  },
  { ...strict, description: 'The node’s identity signs it, see docs/protocol.md' },
)
export type SealedKey = Static<typeof SealedKey>
