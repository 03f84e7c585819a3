import { and, asc, eq, exists, getTableColumns, inArray, isNotNull, ne, or, type SQL, sql } from 'drizzle-orm'
import { type CustomerId, type NodeId, newId, type ProfileId, type RuntimeId } from '../../../ids.ts'
import type { TransportKey } from '../../../protocol/wire/nodes/agent.ts'
import type { Modality } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import type { SealedKey } from '../../../protocol/wire/nodes/sealed-key.ts'
import type { Database } from '../../client.ts'
import { deletedNodes, knownModels, modelProfiles, nodes, runtimes } from '../../schema/pool.ts'
import { formerPayees } from './former-payees.ts'
import { type Known, know, listModelEntries, type ModelEntryRow } from './model-entries.ts'

export type NodeRow = typeof nodes.$inferSelect
export type RuntimeRow = typeof runtimes.$inferSelect
export type ProfileRow = typeof modelProfiles.$inferSelect & Known
export type NewNode = Omit<typeof nodes.$inferInsert, 'nodeId' | 'adminState' | 'drainStartedAt' | 'createdAt'>
/** The fields of a node that an operator may change. Its state has its own functions. */
export type NodeChanges = Partial<
  Pick<
    NodeRow,
    | 'name'
    | 'url'
    | 'apiKeySealed'
    | 'visibility'
    | 'privacyClass'
    | 'nodeClass'
    | 'payoutAddress'
    | 'rank'
    | 'external'
    | 'serves'
    | 'macs'
    | 'wakeSecretSealed'
    | 'wakeHours'
  >
>

/** Everything a gateway knows of the pool before it has asked a node. */
export interface PoolRows {
  readonly nodes: readonly NodeRow[]
  readonly runtimes: readonly RuntimeRow[]
  readonly profiles: readonly ProfileRow[]
  readonly entries: readonly ModelEntryRow[]
}

export async function readPool(db: Database): Promise<PoolRows> {
  const [nodeRows, runtimeRows, profileRows, entryRows] = await Promise.all([
    db.select().from(nodes).where(ne(nodes.adminState, 'revoked')).orderBy(asc(nodes.nodeId)),
    db.select().from(runtimes),
    selectProfiles(db),
    listModelEntries(db),
  ])
  return { nodes: nodeRows, runtimes: runtimeRows, profiles: profileRows, entries: entryRows }
}

/** A gateway of a version before does not write when it first knew a model: then the row itself says it. */
const profileColumns = {
  ...getTableColumns(modelProfiles),
  knownAt: sql<Date>`coalesce(${knownModels.knownAt}, ${modelProfiles.createdAt})`.mapWith(knownModels.knownAt),
}
const selectProfiles = (db: Database, of?: SQL) =>
  db
    .select(profileColumns)
    .from(modelProfiles)
    .leftJoin(knownModels, eq(knownModels.modelId, modelProfiles.upstreamModelId))
    .where(of)

/** Revoked ones included, oldest first. */
export async function listNodes(db: Database, customerId: CustomerId | null = null): Promise<readonly NodeRow[]> {
  const owner = customerId === null ? undefined : eq(nodes.customerId, customerId)
  return db.select().from(nodes).where(owner).orderBy(asc(nodes.nodeId))
}

export async function getNode(db: Database, nodeId: string): Promise<NodeRow | null> {
  const [row] = await db
    .select()
    .from(nodes)
    .where(eq(nodes.nodeId, nodeId as NodeId))
  return row ?? null
}

/** A node that is no demo and not revoked has had a model, or was found because it answered. */
export async function anyNodeServes(db: Database): Promise<boolean> {
  const [found] = await db
    .select({ nodeId: nodes.nodeId })
    .from(nodes)
    .leftJoin(runtimes, eq(runtimes.nodeId, nodes.nodeId))
    .leftJoin(modelProfiles, eq(modelProfiles.runtimeId, runtimes.runtimeId))
    .where(
      and(
        ne(nodes.origin, 'demo'),
        ne(nodes.adminState, 'revoked'),
        or(eq(nodes.origin, 'discovered'), isNotNull(modelProfiles.profileId)),
      ),
    )
    .limit(1)
  return found !== undefined
}

/** Held until the transaction ends, so that of two who change the node the second sees what the first has made of it. */
export async function lockNode(tx: Database, nodeId: string): Promise<NodeRow | null> {
  const [row] = await tx
    .select()
    .from(nodes)
    .where(eq(nodes.nodeId, nodeId as NodeId))
    .for('no key update')
  return row ?? null
}

/** Rejects with 23503 for an unknown customer. */
export async function insertNode(db: Database, node: NewNode, nodeId = newId('node')): Promise<NodeRow> {
  const [row] = await db
    .insert(nodes)
    .values({ ...node, nodeId })
    .returning()
  if (row === undefined) throw new Error('a node was not inserted')
  return row
}

/**
 * null: no such node, or a revoked one. An API key stays with the address it was given for: with another one it goes, unless
 * the same change brings a key (§27).
 */
export async function updateNode(db: Database, nodeId: string, changes: NodeChanges): Promise<NodeRow | null> {
  if (Object.keys(changes).length === 0) return getNode(db, nodeId)
  const { url, apiKeySealed, macs, wakeSecretSealed } = changes
  // A node that can be woken otherwise may be tried at once.
  const woken = macs === undefined && wakeSecretSealed === undefined ? {} : { asleep: sql`${nodes.asleep} - 'vain'` }
  if (url === undefined || apiKeySealed !== undefined) return change(db, nodeId, { ...changes, ...woken })
  const keptKey = sql`case when ${nodes.url} = ${url} then ${nodes.apiKeySealed} end`
  return change(db, nodeId, { ...changes, ...woken, apiKeySealed: keptKey })
}

/** Stores the keys that an agent has published. Every gateway offers them to clients. */
export async function saveTransportKeys(db: Database, nodeId: NodeId, keys: readonly TransportKey[]): Promise<void> {
  await change(db, nodeId, { transportKeys: keys })
}

/** The same of the keys for sealed inference. */
export async function saveSealedKeys(db: Database, nodeId: NodeId, keys: readonly SealedKey[]): Promise<void> {
  await change(db, nodeId, { sealedKeys: keys })
}

/** If the node is already draining, its start time stays. Returns null like `updateNode`. */
export async function drainNode(db: Database, nodeId: string): Promise<NodeRow | null> {
  const startedAt = sql`case when ${nodes.adminState} = 'draining' then ${nodes.drainStartedAt} else now() end`
  return change(db, nodeId, { adminState: 'draining', drainStartedAt: startedAt })
}

export async function resumeNode(db: Database, nodeId: string): Promise<NodeRow | null> {
  return change(db, nodeId, { adminState: 'active', drainStartedAt: null })
}

/**
 * Final. The node's API key is deleted, and no client seals to its transport keys any more. Returns null if there is no
 * such node or it is already revoked.
 */
export async function revokeNode(db: Database, nodeId: string): Promise<NodeRow | null> {
  return change(db, nodeId, {
    adminState: 'revoked',
    apiKeySealed: null,
    wakeSecretSealed: null,
    transportKeys: null,
    sealedKeys: null,
  })
}

/**
 * To another owner, without what the former one had with it: its API key, its payee, and other accounts as its users. The payee is kept for
 * charges that still come. Call it with the row locked.
 */
export async function passNode(db: Database, node: NodeRow, customerId: CustomerId): Promise<NodeRow | null> {
  const passed = { customerId, apiKeySealed: null, payoutAddress: null, visibility: 'private' } as const
  return change(db, node.nodeId, { ...passed, formerPayees: formerPayees(node) })
}

type Change = { [K in keyof NodeRow]?: NodeRow[K] | SQL }

async function change(db: Database, nodeId: string, values: Change): Promise<NodeRow | null> {
  const live = and(eq(nodes.nodeId, nodeId as NodeId), ne(nodes.adminState, 'revoked'))
  const [row] = await db.update(nodes).set(values).where(live).returning()
  return row ?? null
}

/** Its runtimes and profiles go with it. Call it in a transaction, with the row locked. */
export async function deleteNode(tx: Database, nodeId: string): Promise<boolean> {
  // Of a node that was written back by hand: the trigger keeps nothing of one without an address, and would leave what was kept before.
  const isThere = exists(
    tx
      .select({ nodeId: nodes.nodeId })
      .from(nodes)
      .where(eq(nodes.nodeId, nodeId as NodeId)),
  )
  await tx.delete(deletedNodes).where(and(eq(deletedNodes.nodeId, nodeId as NodeId), isThere))
  const gone = await tx
    .delete(nodes)
    .where(eq(nodes.nodeId, nodeId as NodeId))
    .returning({ nodeId: nodes.nodeId })
  return gone.length > 0
}

/**
 * The id of a node's runtime, made at its first answer; gateways that ask at once get the same one. A label that is an id
 * is the one that an agent has given its runtime, and stays its id here; null when another node has it already.
 */
export async function ensureRuntime(db: Database, nodeId: NodeId, label: string): Promise<RuntimeId | null> {
  await db
    .insert(runtimes)
    .values({ runtimeId: label.startsWith('rt_') ? (label as RuntimeId) : newId('rt'), nodeId, label })
    .onConflictDoNothing()
  const [row] = await db
    .select({ runtimeId: runtimes.runtimeId })
    .from(runtimes)
    .where(and(eq(runtimes.nodeId, nodeId), eq(runtimes.label, label)))
  return row?.runtimeId ?? null
}

/** Profiles of models that a runtime was seen to have; likewise the same on every gateway. */
export async function ensureProfiles(
  db: Database,
  runtimeId: RuntimeId,
  upstreamModelIds: readonly string[],
): Promise<readonly ProfileRow[]> {
  if (upstreamModelIds.length === 0) return []
  const ids = [...upstreamModelIds].sort()
  await know(db, ids)
  await db
    .insert(modelProfiles)
    .values(ids.map((upstreamModelId) => ({ profileId: newId('mp'), runtimeId, upstreamModelId })))
    .onConflictDoNothing()
  return selectProfiles(db, and(eq(modelProfiles.runtimeId, runtimeId), inArray(modelProfiles.upstreamModelId, ids)))
}

/** How long a first token took, when, and how many were timed by then. */
export interface FirstToken {
  readonly ms: number
  /** Unix ms. */
  readonly atMs: number
  readonly of: number
}

/** What the good calls of a profile since the last write come to. */
export interface MeasuredCalls {
  readonly profileId: ProfileId
  readonly at: Date
  /** The newest, and how many there are among these calls. null: none was timed. */
  readonly firstToken: FirstToken | null
  /** null: too short to tell, or not timed. */
  readonly tokensPerSecond: number | null
  /** Kinds of work that it was only supposed to do, and has done. */
  readonly answered: readonly Modality[]
}

export interface SavedProfile {
  readonly profileId: ProfileId
  readonly firstToken: FirstToken | null
}

/** Keeps the newest of each profile, whichever gateway saw it, and counts all. One statement. Resolves with what is kept. */
export async function saveMeasuredCalls(
  db: Database,
  calls: readonly MeasuredCalls[],
): Promise<readonly SavedProfile[]> {
  if (calls.length === 0) return []
  const instantOf = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())
  const rows = calls.map(
    ({ profileId, at, firstToken: first, tokensPerSecond, answered }) =>
      sql`(${profileId}::text, ${at.toISOString()}::timestamptz, ${first?.ms ?? null}::float8,
        ${instantOf(first?.atMs)}::timestamptz, ${first?.of ?? 0}::bigint, ${tokensPerSecond}::float8, ${JSON.stringify(answered)}::text::jsonb)`,
  )
  const saved = await db.execute<{ id: ProfileId; ms: number | null; at: string | null; of: string }>(sql`
    update model_profiles p
    set last_measured_at = greatest(p.last_measured_at, m.at),
      ttft_ms = case when m.ttft_at > p.ttft_at or p.ttft_at is null then coalesce(m.ttft_ms, p.ttft_ms) else p.ttft_ms end,
      ttft_at = greatest(p.ttft_at, m.ttft_at),
      ttft_count = p.ttft_count + m.ttft_count,
      answered = case when p.answered @> m.answered then p.answered
        else (select jsonb_agg(distinct work) from jsonb_array_elements(p.answered || m.answered) as work) end,
      tokens_per_second = case when m.at < p.last_measured_at then p.tokens_per_second
        else coalesce(m.tokens_per_second, p.tokens_per_second) end
    from (values ${sql.join(rows, sql`, `)}) as m(profile_id, at, ttft_ms, ttft_at, ttft_count, tokens_per_second, answered)
    where p.profile_id = m.profile_id
    returning p.profile_id as id, p.ttft_ms as ms, (extract(epoch from p.ttft_at) * 1000)::bigint::text as at, p.ttft_count::text as of`)
  return saved.map(({ id, ms, at, of }) => ({
    profileId: id,
    firstToken: ms === null || at === null ? null : { ms, atMs: Number(at), of: Number(of) },
  }))
}

/** Held until the transaction ends, because one server is one node of its owner. */
export async function lockNodes(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 3)`)
}
