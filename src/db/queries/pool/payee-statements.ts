import { and, desc, eq, sql } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { nodes, payeeStatements } from '../../schema/pool.ts'

export type PayeeStatement = typeof payeeStatements.$inferSelect

/** A statement, and the identity by which it is to be checked. */
export interface CheckedStatement extends PayeeStatement {
  /** 32 bytes; null: the node's row is gone. */
  readonly identityKey: Buffer | null
}

/** The one in force; null: the node has made none. */
export async function newestStatement(db: Database, nodeId: string): Promise<PayeeStatement | null> {
  const [row] = await db
    .select()
    .from(payeeStatements)
    .where(eq(payeeStatements.nodeId, nodeId as NodeId))
    .orderBy(desc(payeeStatements.signedAt))
    .limit(1)
  return row ?? null
}

/** Of the last 24 hours. */
export async function statementsOfDay(db: Database, nodeId: string): Promise<number> {
  const isOfDay = and(
    eq(payeeStatements.nodeId, nodeId as NodeId),
    sql`${payeeStatements.createdAt} > now() - interval '1 day'`,
  )
  return db.$count(payeeStatements, isOfDay)
}

/** From now on the node earns for this address. */
export async function insertStatement(tx: Database, statement: Omit<PayeeStatement, 'createdAt'>): Promise<void> {
  await tx.insert(payeeStatements).values(statement)
  await tx
    .update(nodes)
    .set({ payoutAddress: statement.payee, payeeStatedAt: statement.signedAt })
    .where(eq(nodes.nodeId, statement.nodeId))
}

const columns = sql`s.node_id as "nodeId", s.payee, s.signed_at as "signedAt", s.signature_ed25519 as "signatureEd25519",
  s.created_at as "createdAt"`
type Row = Record<string, unknown> & {
  nodeId: NodeId
  payee: string
  signedAt: string
  signatureEd25519: string
  createdAt: string
}
const statementOf = ({ signedAt, createdAt, ...row }: Row): PayeeStatement => ({
  ...row,
  signedAt: new Date(signedAt),
  createdAt: new Date(createdAt),
})

export const statementSubject = ({ nodeId, signedAt }: Pick<PayeeStatement, 'nodeId' | 'signedAt'>): string =>
  `${nodeId}:${signedAt.getTime()}`

/** Those that the log does not hold, oldest first. */
export async function statementsToLog(db: Database, limit: number): Promise<readonly PayeeStatement[]> {
  const rows = await db.execute<Row>(sql`select ${columns} from payee_statements s
    where not exists (select 1 from log_entries e where e.kind = 'payee'
      and e.subject = s.node_id || ':' || floor(extract(epoch from s.signed_at) * 1000)::bigint)
    order by s.created_at, s.node_id limit ${limit}`)
  return rows.map(statementOf)
}

/** All of them, by node. One node states few. */
export async function allStatements(db: Database): Promise<readonly CheckedStatement[]> {
  const rows = await db
    .select({ statement: payeeStatements, identityKey: nodes.identityKey })
    .from(payeeStatements)
    .leftJoin(nodes, eq(nodes.nodeId, payeeStatements.nodeId))
    .orderBy(payeeStatements.nodeId, payeeStatements.signedAt)
  return rows.map(({ statement, identityKey }) => ({ ...statement, identityKey }))
}

export interface LoggedStatement {
  readonly subject: string
  readonly hash: string
}

export async function loggedStatements(db: Database): Promise<readonly LoggedStatement[]> {
  const rows = await db.execute<{ subject: string | null; hash: string }>(
    sql`select subject, hash from log_entries where kind = 'payee' order by entry_index`,
  )
  return rows.map(({ subject, hash }) => ({ subject: subject ?? '', hash }))
}
