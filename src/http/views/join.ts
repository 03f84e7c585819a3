import type { WaitingJoinRecord } from '../../actors/agents/joining.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { fingerprint } from '../../protocol/signing/ed25519.ts'
import type { WaitingJoin } from '../../protocol/wire/nodes/join.ts'
import { isoTime } from '../../time.ts'

/** Without the address that it came from: people compare words. */
export const joinView = (row: WaitingJoinRecord): WaitingJoin => ({
  join_id: row.joinId,
  name: row.name,
  words: row.words,
  identity_fingerprint: fingerprint(toBase64url(row.publicKey)),
  created_at: isoTime(row.createdAt),
  expires_at: isoTime(row.expiresAt),
})
