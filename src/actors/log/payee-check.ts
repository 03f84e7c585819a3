import type { Database } from '../../db/client.ts'
import {
  allStatements,
  type CheckedStatement,
  loggedStatements,
  type PayeeStatement,
  statementSubject,
} from '../../db/queries/pool/payee-statements.ts'
import type { RowFault } from '../../machines/rules/books.ts'
import { payeeHash } from '../../protocol/log/entry-facts.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { payeeMessage } from '../../protocol/signing/signatures.ts'
import { isoTime, minuteMs } from '../../time.ts'

export const statementHash = ({ nodeId, payee, signedAt, signatureEd25519: signature }: PayeeStatement): string =>
  payeeHash({ nodeId, payee, signedAt: isoTime(signedAt), signature })

/** Of a node whose row is gone nothing more can be said than that the log holds it. */
function isSigned({ nodeId, payee, signedAt, signatureEd25519, identityKey }: CheckedStatement): boolean {
  if (identityKey === null) return true
  const message = payeeMessage(nodeId, payee, isoTime(signedAt))
  return verifyKey(toBase64url(identityKey))?.verify(message, signatureEd25519) === true
}

/** A statement is taken within 300 s of its signature; the clock of the database may differ by as much. */
const takenWithinMs = 10 * minuteMs

/** When it was taken says from when on it counts, and only the time of the signature is signed. */
const isDated = ({ signedAt, createdAt }: CheckedStatement): boolean =>
  Math.abs(createdAt.getTime() - signedAt.getTime()) <= takenWithinMs

/** Each statement bears its node's signature and was taken at its time, and those that the log holds are there as it holds them. */
export async function checkStatements(tx: Database): Promise<readonly RowFault[]> {
  const rule = "every node's statement of its payee is as the node signed it and the log holds it"
  const statements = await allStatements(tx)
  const hashes = new Map(statements.map((one) => [statementSubject(one), statementHash(one)]))
  const unsigned = statements.filter((one) => !isSigned(one) || !isDated(one)).map(statementSubject)
  const changed = (await loggedStatements(tx)).filter(({ subject, hash }) => hashes.get(subject) !== hash)
  return [...unsigned, ...changed.map(({ subject }) => subject)].map((subject) => ({ rule, subject }))
}
