import type { Database } from '../../db/client.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import { listModelEntries } from '../../db/queries/pool/model-entries.ts'
import { newestStatement } from '../../db/queries/pool/payee-statements.ts'
import type { NodeRow, NodeChanges as NodeRowChanges } from '../../db/queries/pool/pool.ts'
import * as pool from '../../db/queries/pool/pool.ts'
import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { CustomerId } from '../../ids.ts'
import type { PrivacyClass, Visibility } from '../../machines/rules/routing.ts'
import { checkPrecondition, type Precondition } from '../../precondition.ts'
import type { ServedWork } from '../../protocol/wire/nodes/kinds-of-work.ts'
import { secondMs } from '../../time.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { AuditContext, AuditTrail, Deed } from '../audit/audit-context.ts'
import { createCatalogueVerbs, type ModelEntry } from '../catalogue/model-entries.ts'
import { checkedUrl, checkedWork, refuseTwice, sameServer, sealedKey, wakeChanges } from '../node-rows/node-checks.ts'
import { changeOwner } from '../node-rows/node-owner.ts'

/** A node as its operator sees it. It says whether the node has an API key, but not which. */
export type NodeRecord = Omit<NodeRow, 'apiKeySealed' | 'wakeSecretSealed'> & { readonly hasApiKey: boolean }

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
  readonly rank?: number
  readonly external?: boolean
  readonly serves?: ServedWork | null
  readonly origin?: NodeRow['origin']
}

export interface NodeChanges {
  readonly name?: string
  /** A new URL removes the API key, unless a new key comes with it. */
  readonly url?: string
  /** null removes the key. */
  readonly apiKey?: string | null
  readonly visibility?: Visibility
  readonly nodeClass?: string
  readonly privacyClass?: PrivacyClass
  readonly payoutAddress?: string | null
  readonly rank?: number
  readonly external?: boolean
  /** null: none is declared any more. */
  readonly serves?: ServedWork | null
  /** The hardware address that listens for a magic packet; null: none is known any more. */
  readonly mac?: string | null
  /** The password of SecureOn, in the form of an address. */
  readonly secureOn?: string | null
  /** `07:00-23:00 Europe/Berlin`; null: always. */
  readonly wakeHours?: string | null
}

export type NodeCommand = 'drain' | 'resume' | 'revoke'

export type PoolReads = ReturnType<typeof createReads>

export interface PoolAdmin extends PoolReads {
  /**
   * The actions in the name of an admin, with audit events. null means that the gateway acts by itself, without an
   * event.
   */
  by(audit: AuditContext | null): PoolVerbs
}

export type PoolVerbs = PoolReads & ReturnType<typeof createVerbs>

export interface PoolAdminOptions {
  readonly db: Database
  readonly trail: AuditTrail
  readonly sealing: Sealing
  /** See `ChangeFeed.changedHere`; its promise is awaited. */
  readonly changedHere: (topic: 'nodes' | 'model_entries') => unknown
}

/** How long an action waits until the routing table follows its change, ms. Without the database it does not wait. */
const tableWaitMs = 2 * secondMs

export function createPoolAdmin(options: PoolAdminOptions): PoolAdmin {
  const reads = createReads(options.db)
  return { ...reads, by: (audit) => ({ ...reads, ...createVerbs(options, audit) }) }
}

const createReads = (db: Database) => ({
  /** Refuses with `node_not_found`. */
  node: async (nodeId: string): Promise<NodeRecord> => shown(found(await pool.getNode(db, nodeId))),
  /** Oldest first, including revoked ones. null means the nodes of all customers. */
  nodes: async (customerId: string | null = null): Promise<readonly NodeRecord[]> =>
    (await pool.listNodes(db, customerId)).map(shown),
  /** Another than the demo has, or had, a model. */
  anyNodeServes: (): Promise<boolean> => pool.anyNodeServes(db),
  modelEntries: (): Promise<readonly ModelEntry[]> => listModelEntries(db),
})

/**
 * The verbs on nodes and catalogue entries, one transaction each, with the event of the audit. They refuse with `customer_not_found`,
 * `node_not_found`, `model_entry_not_found`, `precondition_failed`, `invalid_state` (a revoked node stays revoked) or `invalid_request`.
 */
function createVerbs(options: PoolAdminOptions, audit: AuditContext | null) {
  const { db, sealing, trail } = options
  const record = async (tx: Database, deed: Deed) => {
    if (audit !== null) await trail.record(tx, audit, deed)
  }
  const recordNode = (tx: Database, { nodeId, adminState }: NodeRow) =>
    record(tx, { targetId: nodeId, metadata: { node_state: adminState } })
  // When somebody has made a node private, no prompt of others reaches it after this answer.
  const changedHere = async (topic: 'nodes' | 'model_entries') => {
    await waitAtMost(tableWaitMs, Promise.resolve(options.changedHere(topic)))
  }
  const changedNode = async (row: NodeRow): Promise<NodeRecord> => {
    await changedHere('nodes')
    return shown(row)
  }
  return {
    registerRuntimeNode: async (node: NewRuntimeNode): Promise<NodeRecord> => {
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
    updateNode: async (
      nodeId: string,
      changes: NodeChanges,
      precondition: Precondition | null = null,
    ): Promise<NodeRecord> => {
      const { apiKey, url: given, serves, mac, secureOn, wakeHours, ...rest } = changes
      const url = given === undefined ? undefined : checkedUrl(given)
      const set: NodeRowChanges = {
        ...rest,
        ...(url === undefined ? {} : { url }),
        ...(serves === undefined ? {} : { serves: checkedWork(serves) }),
        ...(apiKey === undefined ? {} : { apiKeySealed: sealedKey(apiKey, sealing) }),
        ...wakeChanges({ mac, secureOn, wakeHours }, sealing),
      }
      const row = await db.transaction(async (tx) => {
        const node = found(await pool.lockNode(tx, nodeId))
        checkPrecondition(precondition, node)
        if (serves != null) refuseAgent(node, 'serves')
        if (mac != null || secureOn != null) refuseAgent(node, mac == null ? 'secure_on' : 'mac')
        if (url !== undefined || apiKey != null) {
          refuseAgent(node, url === undefined ? 'api_key' : 'url')
          if (url !== undefined && !sameServer(node.url, url)) await refuseTwice(tx, node.customerId, url)
        }
        await refuseStatedPayee(tx, nodeId, rest.payoutAddress)
        const changed = (await pool.updateNode(tx, nodeId, set)) ?? (await refuse(tx, nodeId))
        await recordNode(tx, changed)
        return changed
      })
      return changedNode(row)
    },
    deleteNode: async (nodeId: string, precondition: Precondition | null = null): Promise<void> => {
      await db.transaction(async (tx) => {
        checkPrecondition(precondition, found(await pool.lockNode(tx, nodeId)))
        if (!(await pool.deleteNode(tx, nodeId))) throw new Problem('node_not_found')
        await record(tx, { targetId: nodeId })
      })
      await changedHere('nodes')
    },
    /** See `changeOwner`. Refuses also with `node_exists`: the new owner has the same server as another node. */
    changeNodeOwner: async (
      nodeId: string,
      customerId: string,
      precondition: Precondition | null = null,
    ): Promise<NodeRecord> => {
      const row = await db.transaction(async (tx) => {
        const changed = await changeOwner(tx, nodeId, customerId, precondition)
        await recordNode(tx, changed)
        return changed
      })
      return changedNode(row)
    },
    /** Repeating a command changes nothing, so draining twice is no fault. */
    setNodeAdminState: async (nodeId: string, command: NodeCommand): Promise<NodeRecord> => {
      const row = await db.transaction(async (tx) => {
        const changed = await setState(tx, nodeId, command)
        await recordNode(tx, changed)
        return changed
      })
      return changedNode(row)
    },
    ...createCatalogueVerbs({ db, record, changed: () => changedHere('model_entries') }),
  }
}

/** A payee that the node has signed can only be changed by the node. */
async function refuseStatedPayee(tx: Database, nodeId: string, payee: string | null | undefined): Promise<void> {
  const stated = payee === undefined ? null : await newestStatement(tx, nodeId)
  if (stated === null || payee?.toLowerCase() === stated.payee) return
  throw new Problem('invalid_state', {
    detail: 'The node has signed its payee itself, and alone can change it: `node payee` on its computer',
  })
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
    rank: node.rank ?? 0,
    external: node.external ?? false,
    serves: checkedWork(node.serves ?? null),
    origin: node.origin ?? 'operator',
  }
}

function found(row: NodeRow | null): NodeRow {
  if (row === null) throw new Problem('node_not_found')
  return row
}

/**
 * An agent reports its own address at its enrolment, recognizes the gateway by signatures and knows what its models do: none
 * of that can be set.
 */
function refuseAgent({ kind }: NodeRow, param: 'url' | 'api_key' | 'serves' | 'mac' | 'secure_on'): void {
  if (kind !== 'agent') return
  throw new Problem('invalid_request', { param, detail: `${param} cannot be set for a node with an agent` })
}

/** Tells why a change found no node that is not revoked. */
async function refuse(db: Database, nodeId: string): Promise<never> {
  found(await pool.getNode(db, nodeId))
  throw new Problem('invalid_state', { detail: 'An operator has revoked this node' })
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
  const { apiKeySealed, wakeSecretSealed: _, ...rest } = row
  return { ...rest, hasApiKey: apiKeySealed !== null }
}
