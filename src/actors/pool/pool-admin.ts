import type { Database } from '../../db/client.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import type { ModelEntryRow, NodeRow, NodeChanges as NodeRowChanges } from '../../db/queries/pool/pool.ts'
import * as pool from '../../db/queries/pool/pool.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { type CustomerId, modelIdPattern } from '../../ids.ts'
import type { PrivacyClass, Visibility } from '../../machines/rules/routing.ts'
import { secondMs } from '../../time.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { AuditContext, AuditTrail, Deed } from '../audit/audit-context.ts'

/** A node as its operator may see it: whether it has an API key, never which. */
export type NodeRecord = Omit<NodeRow, 'apiKeySealed'> & { readonly hasApiKey: boolean }
export type ModelEntry = ModelEntryRow

export interface NewRuntimeNode {
  readonly customerId: string
  /** `http` or `https`, without userinfo, query or fragment; an ending slash is cut off. */
  readonly url: string
  /** Default: host and port of the URL. */
  readonly name?: string
  readonly visibility: Visibility
  readonly nodeClass: string
  readonly privacyClass: PrivacyClass
  readonly apiKey?: string | null
  readonly payoutAddress?: string | null
  readonly origin?: NodeRow['origin']
}

export interface NodeChanges {
  readonly name?: string
  /** Another address takes the API key away, unless one comes with it. */
  readonly url?: string
  /** null takes it away. */
  readonly apiKey?: string | null
  readonly visibility?: Visibility
  readonly nodeClass?: string
  readonly privacyClass?: PrivacyClass
  readonly payoutAddress?: string | null
}

export type NodeCommand = 'drain' | 'resume' | 'revoke'

export interface PoolReads {
  /** Refuses with `node_not_found`. */
  node(nodeId: string): Promise<NodeRecord>
  /** Oldest first, revoked ones included; of one customer, or all. */
  nodes(customerId?: string | null): Promise<readonly NodeRecord[]>
  modelEntries(): Promise<readonly ModelEntry[]>
}

export interface PoolAdmin extends PoolReads {
  /** The verbs on somebody's word, with its event; null: on the gateway's own, which no event stands for. */
  by(audit: AuditContext | null): PoolVerbs
}

/**
 * The verbs on nodes and catalogue entries, one transaction each, with the event of the audit. They refuse with `customer_not_found`,
 * `node_not_found`, `model_entry_not_found`, `invalid_state` (a revoked node stays revoked) or `invalid_request`.
 */
export interface PoolVerbs extends PoolReads {
  registerRuntimeNode(node: NewRuntimeNode): Promise<NodeRecord>
  updateNode(nodeId: string, changes: NodeChanges): Promise<NodeRecord>
  deleteNode(nodeId: string): Promise<void>
  /** What already is so stays so: draining twice is no fault. */
  setNodeAdminState(nodeId: string, command: NodeCommand): Promise<NodeRecord>
  /** Makes or replaces the whole entry. None of its names may be a name of another entry. */
  putModelEntry(entry: pool.NewModelEntry): Promise<ModelEntry>
  deleteModelEntry(modelId: string): Promise<void>
}

export interface PoolAdminOptions {
  readonly db: Database
  readonly trail: AuditTrail
  readonly sealing: Sealing
  /** `ChangeFeed.changedHere`; what it returns is awaited. */
  readonly changedHere: (topic: 'nodes' | 'model_entries') => unknown
}

const aliasesMax = 64
/** The routing table follows a change before the caller hears of it, unless the database is away meanwhile, ms. */
const tableWaitMs = 2 * secondMs

export function createPoolAdmin(options: PoolAdminOptions): PoolAdmin {
  const reads = createReads(options.db)
  return { ...reads, by: (audit) => ({ ...reads, ...createVerbs(options, audit) }) }
}

function createReads(db: Database): PoolReads {
  return {
    node: async (nodeId) => shown(found(await pool.getNode(db, nodeId))),
    nodes: async (customerId = null) => (await pool.listNodes(db, customerId)).map(shown),
    modelEntries: () => pool.listModelEntries(db),
  }
}

function createVerbs(options: PoolAdminOptions, audit: AuditContext | null): Omit<PoolVerbs, keyof PoolReads> {
  const { db, sealing, trail } = options
  const record = async (tx: Database, deed: Deed) => {
    if (audit !== null) await trail.record(tx, audit, deed)
  }
  const recordNode = (tx: Database, { nodeId, adminState }: NodeRow) =>
    record(tx, { targetId: nodeId, metadata: { node_state: adminState } })
  // Whoever has made a machine private may rely on it: no prompt of others reaches it once the answer is there.
  const changedHere = async (topic: 'nodes' | 'model_entries') => {
    await within(tableWaitMs, Promise.resolve(options.changedHere(topic))).catch(() => {})
  }
  const changedNode = async (row: NodeRow): Promise<NodeRecord> => {
    await changedHere('nodes')
    return shown(row)
  }
  return {
    registerRuntimeNode: async (node) => {
      const url = checkedUrl(node.url)
      const row = await db.transaction(async (tx) => {
        if ((await getCustomer(tx, node.customerId)) === null) throw new Problem('customer_not_found')
        await refuseTwice(tx, node.customerId, url)
        const made = await pool.insertNode(tx, newNodeRow(node, url, sealing))
        await recordNode(tx, made)
        return made
      })
      return changedNode(row)
    },
    updateNode: async (nodeId, changes) => {
      const { apiKey, url, ...rest } = changes
      if (url !== undefined || apiKey != null) {
        refuseAgent(found(await pool.getNode(db, nodeId)), url === undefined ? 'api_key' : 'url')
      }
      const set: NodeRowChanges = {
        ...rest,
        ...(url === undefined ? {} : { url: checkedUrl(url) }),
        ...(apiKey === undefined ? {} : { apiKeySealed: sealedKey(apiKey, sealing) }),
      }
      const row = await db.transaction(async (tx) => {
        const changed = (await pool.updateNode(tx, nodeId, set)) ?? (await refuse(tx, nodeId))
        await recordNode(tx, changed)
        return changed
      })
      return changedNode(row)
    },
    deleteNode: async (nodeId) => {
      await db.transaction(async (tx) => {
        if (!(await pool.deleteNode(tx, nodeId))) throw new Problem('node_not_found')
        await record(tx, { targetId: nodeId })
      })
      await changedHere('nodes')
    },
    setNodeAdminState: async (nodeId, command) => {
      const row = await db.transaction(async (tx) => {
        const changed = await setState(tx, nodeId, command)
        await recordNode(tx, changed)
        return changed
      })
      return changedNode(row)
    },
    putModelEntry: async (entry) => {
      const aliases = checkedNames(entry)
      const row = await db.transaction(async (tx) => {
        await pool.lockModelEntries(tx)
        refuseTaken(entry.modelId, aliases, await pool.listModelEntries(tx))
        const put = await pool.putModelEntry(tx, { ...entry, aliases })
        await record(tx, { targetId: put.modelId })
        return put
      })
      await changedHere('model_entries')
      return row
    },
    deleteModelEntry: async (modelId) => {
      await db.transaction(async (tx) => {
        if (!(await pool.deleteModelEntry(tx, modelId))) throw new Problem('model_entry_not_found')
        await record(tx, { targetId: modelId })
      })
      await changedHere('model_entries')
    },
  }
}

function newNodeRow(node: NewRuntimeNode, url: string, sealing: Sealing): pool.NewNode {
  return {
    customerId: node.customerId as CustomerId,
    kind: 'runtime',
    name: node.name ?? new URL(url).host,
    url,
    apiKeySealed: sealedKey(node.apiKey, sealing),
    visibility: node.visibility,
    privacyClass: node.privacyClass,
    nodeClass: node.nodeClass,
    payoutAddress: node.payoutAddress ?? null,
    origin: node.origin ?? 'operator',
  }
}

function sealedKey(apiKey: string | null | undefined, sealing: Sealing): Buffer | null {
  return apiKey == null ? null : sealing.seal('node_api_key', apiKey)
}

/** The base URL of a model server. Its credentials have a field of their own; here they would end up in logs. */
function checkedUrl(text: string): string {
  const refused = (detail: string) => new Problem('invalid_request', { param: 'url', detail })
  if (!URL.canParse(text)) throw refused('url is not a URL')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('url must begin with http:// or https://')
  if (url.port === '0') throw refused('url names port 0, where nothing can be reached')
  if (url.username !== '' || url.password !== '') throw refused('url must not hold credentials; use api_key')
  if (url.search !== '' || url.hash !== '') throw refused('url must not have a query or a fragment')
  return url.origin + url.pathname.replace(/\/+$/, '')
}

/** One server is one node of its owner: twice it would get twice the work that it has room for. */
async function refuseTwice(tx: Database, customerId: string, url: string): Promise<void> {
  const rows = await pool.listNodes(tx, customerId as CustomerId)
  const same = rows.find((row) => row.url === url && row.adminState !== 'revoked')
  if (same !== undefined) throw new Problem('node_exists', { param: 'url', detail: `It is ${same.nodeId}` })
}

function found(row: NodeRow | null): NodeRow {
  if (row === null) throw new Problem('node_not_found')
  return row
}

/** An agent itself says where it is called, when it enrols, and knows the gateway by its signature. */
function refuseAgent({ kind }: NodeRow, param: 'url' | 'api_key'): void {
  if (kind !== 'agent') return
  throw new Problem('invalid_request', { param, detail: `${param} cannot be set for a node with an agent` })
}

/** Why a change found no node that is not revoked. */
async function refuse(db: Database, nodeId: string): Promise<never> {
  found(await pool.getNode(db, nodeId))
  throw new Problem('invalid_state', { detail: 'The node is revoked' })
}

async function setState(db: Database, nodeId: string, command: NodeCommand): Promise<NodeRow> {
  switch (command) {
    case 'drain':
      return (await pool.drainNode(db, nodeId)) ?? refuse(db, nodeId)
    case 'resume':
      return (await pool.resumeNode(db, nodeId)) ?? refuse(db, nodeId)
    case 'revoke':
      return (await pool.revokeNode(db, nodeId)) ?? found(await pool.getNode(db, nodeId))
  }
}

function shown(row: NodeRow): NodeRecord {
  const { apiKeySealed, ...rest } = row
  return { ...rest, hasApiKey: apiKeySealed !== null }
}

/** The entry's aliases, each once and without its own id. */
function checkedNames(entry: pool.NewModelEntry): string[] {
  const aliases = [...new Set(entry.aliases ?? [])].filter((alias) => alias !== entry.modelId)
  const wrong = [entry.modelId, ...aliases].some((name) => !modelIdPattern.test(name))
  if (wrong) throw new Problem('invalid_request', { param: 'aliases', detail: 'A name is not a model id' })
  if (aliases.length > aliasesMax) {
    throw new Problem('invalid_request', { param: 'aliases', detail: `At most ${aliasesMax} aliases` })
  }
  return aliases
}

function refuseTaken(modelId: string, aliases: readonly string[], entries: readonly ModelEntryRow[]): void {
  const taken = new Set(
    entries.filter((entry) => entry.modelId !== modelId).flatMap((entry) => [entry.modelId, ...entry.aliases]),
  )
  if (taken.has(modelId)) throw new Problem('invalid_request', { param: 'id', detail: 'The id is an alias elsewhere' })
  if (aliases.some((alias) => taken.has(alias))) {
    throw new Problem('invalid_request', { param: 'aliases', detail: 'An alias is a name of another entry' })
  }
}
