import type { SessionRow } from '../../db/queries/accounts/operators.ts'
import { hashToken } from '../../secrets.ts'

/** What a session may do, for whom, and until when. */
type MarkedFacts = Pick<
  SessionRow,
  'sessionId' | 'tokenHash' | 'method' | 'role' | 'name' | 'actorHashPrefix' | 'adminId' | 'sourceHash' | 'expiresAt'
>

/** The pepper is not in the database: who has only that can give no session another role. */
export function sessionMark(pepper: string, session: MarkedFacts): string {
  const { sessionId, tokenHash, method, role, name, actorHashPrefix, adminId, sourceHash, expiresAt } = session
  const source = sourceHash?.toString('hex') ?? null
  const facts = [sessionId, tokenHash.toString('hex'), method, role, name, actorHashPrefix, adminId, source]
  return hashToken(pepper, `session-mark\0${JSON.stringify([...facts, expiresAt.getTime()])}`).toString('base64url')
}

/** `peppers`: of all that the gateway knows. */
export const bearsMark = (peppers: readonly string[], session: SessionRow): boolean =>
  peppers.some((pepper) => sessionMark(pepper, session) === session.mark)
