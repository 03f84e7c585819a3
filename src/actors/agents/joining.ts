import { randomBytes } from 'node:crypto'
import type { Database } from '../../db/client.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import * as rows from '../../db/queries/pool/joins.ts'
import { addIdentity, isKnownIdentity } from '../../db/queries/pool/node-identities.ts'
import { getNode, insertNode, type NodeRow } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import { loop } from '../../host/loop.ts'
import { type CustomerId, newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import type { PrivacyClass, Visibility } from '../../machines/rules/routing.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { joinCommitment, joinMessage, joinWords } from '../../protocol/signing/join-words.ts'
import { plainWords } from '../../protocol/signing/plain-words.ts'
import { isFresh } from '../../protocol/signing/signatures.ts'
import {
  type JoinBegun,
  type JoinRequest,
  type JoinRevealed,
  joinRevealMs,
  joinsKeptMax,
  joinsKeptPerAddressMax,
  joinsMax,
  joinsPerAddressMax,
  joinWaitMs,
} from '../../protocol/wire/nodes/join.ts'
import { isoTime, minuteMs, secondMs } from '../../time.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { provenKey } from './enrollment.ts'
import type { RouterIdentity } from './router-identity.ts'

/** What an operator makes of a computer whose words it has compared. */
export interface ConfirmedJoin {
  /** As the operator read them; case and separators do not count. */
  readonly words: string
  readonly customerId: string
  /** Absent: as the computer calls itself. */
  readonly name?: string
  readonly visibility: Visibility
  readonly nodeClass: string
  readonly privacyClass: PrivacyClass
}

/** Where a join stands; `confirmed` says what the node is, and by which key its gateway is to sign that. */
export type JoinStanding =
  | { readonly state: 'waiting' | 'refused' | 'expired' }
  | { readonly state: 'confirmed'; readonly node: NodeRow; readonly kid: string }

export type WaitingJoinRecord = Pick<rows.JoinRow, 'joinId' | 'name' | 'publicKey' | 'createdAt' | 'expiresAt'> & {
  readonly words: string
}

/** Lets computers join without a token (§39). Errors of the database driver pass through. */
export interface Joining {
  /**
   * Refuses with `signature_invalid`, `signature_expired`, `nonce_reused` (this commitment was told before),
   * `invalid_request`, `invalid_state` (this identity was enrolled before) or `joins_full`. `addressHash`: keyed.
   */
  begin(request: JoinRequest, addressHash: string): Promise<JoinBegun>
  /**
   * From now on it waits for an operator. The same nonce once more gets the same answer. Refuses with `join_not_found`,
   * `invalid_request` (the nonce does not fit its commitment) or `invalid_state` (another computer has the same words).
   */
  reveal(joinId: string, nodeNonce: string): Promise<JoinRevealed>
  /** Refuses with `join_not_found`. */
  standing(joinId: string): Promise<JoinStanding>
  /** The computer does not want to join any more. Refuses with `join_not_found`. */
  withdraw(joinId: string): Promise<void>
  /** Newest first. */
  waiting(limit: number): Promise<readonly WaitingJoinRecord[]>
  /**
   * Makes it a node. Refuses with `join_not_found`, `confirmation_required` (other words), `customer_not_found` or
   * `invalid_state`.
   */
  confirm(joinId: string, choice: ConfirmedJoin, audit: AuditContext): Promise<NodeRow>
  /** Refuses with `join_not_found`. */
  refuse(joinId: string, audit: AuditContext): Promise<void>
  /** Forgets joins that ended: now, so that a restart keeps none, and regularly. */
  start(): void
  stop(): void
}

export interface JoiningOptions {
  readonly db: Database
  readonly log: Log
  readonly trail: AuditTrail
  readonly identity: Pick<RouterIdentity, 'publicKeys'>
  /** See `ChangeFeed.changedHere`; its promise is awaited. */
  readonly changedHere: (topic: 'nodes') => unknown
  /** Unix ms. */
  readonly now?: () => number
}

const nonceBytes = 32
const sweepEveryMs = minuteMs
/**
 * How long rows stay after their end, ms: longer than a signed request is fresh, so that none can be sent again, and with
 * the wait and a sweep no longer than the half hour that docs/security.md names.
 */
const joinKeptMs = joinWaitMs - sweepEveryMs
const retryAfterSeconds = joinRevealMs / secondMs
const knownIdentity = () =>
  new Problem('invalid_state', { detail: 'This identity was enrolled before; start with a fresh data folder' })
const gone = () => new Problem('join_not_found')

export function createJoining(options: JoiningOptions): Joining {
  const { db, log, trail } = options
  const sweeping = loop({
    everyMs: sweepEveryMs,
    boundMs: sweepEveryMs,
    run: () => rows.dropOldJoins(db, joinKeptMs),
    onFailure: (error) => log.warn('joins_not_swept', { failure: failureName(error) }),
  })
  return {
    begin: (request, addressHash) => begin(request, addressHash, options),
    reveal: (joinId, nodeNonce) => reveal(joinId, nodeNonce, options),
    standing: (joinId) => standing(joinId, db),
    withdraw: async (joinId) => {
      if (!(await rows.withdrawJoin(db, joinId))) throw gone()
    },
    waiting: async (limit) => (await rows.waitingJoins(db, limit)).map((row) => ({ ...row, words: row.words ?? '' })),
    confirm: (joinId, choice, audit) => confirm(joinId, choice, audit, options),
    refuse: (joinId, audit) =>
      db.transaction(async (tx) => {
        if ((await rows.endWaitingJoin(tx, joinId, { state: 'refused' })) === null) throw gone()
        await trail.record(tx, audit, { targetId: joinId })
      }),
    start: () => void sweeping.startNow(),
    stop: () => void sweeping.stop(),
  }
}

function full(where: string): Problem {
  return new Problem('joins_full', { retryAfterSeconds, detail: where })
}

/** Refuses with `joins_full`. */
async function checkRoom(tx: Database, addressHash: string): Promise<void> {
  const { waiting, kept } = await rows.countJoins(tx, addressHash)
  const each = 'Each waits for at most 15 minutes.'
  if (waiting.here >= joinsPerAddressMax) {
    throw full(`From this address ${joinsPerAddressMax} computers wait already. ${each}`)
  }
  if (waiting.all >= joinsMax) throw full(`${joinsMax} computers wait already. ${each}`)
  if (kept.here >= joinsKeptPerAddressMax) {
    throw full(`From this address computers have asked ${joinsKeptPerAddressMax} times within half an hour.`)
  }
  if (kept.all >= joinsKeptMax) throw full(`Computers have asked ${joinsKeptMax} times within half an hour.`)
}

async function begin(request: JoinRequest, addressHash: string, options: JoiningOptions): Promise<JoinBegun> {
  const { db, identity, now = Date.now } = options
  const publicKey = Buffer.from(provenKey(request, joinMessage(request)).publicKey, 'base64url')
  if (!isFresh(request.timestamp, now())) {
    const detail = `The computer's clock is more than 300 s off: here it is ${isoTime(now())}`
    throw new Problem('signature_expired', { param: 'timestamp', detail })
  }
  const [router] = identity.publicKeys
  if (router === undefined) throw new Error('The gateway has no router key')
  const nonce = toBase64url(new Uint8Array(randomBytes(nonceBytes)))
  const row = await db.transaction(async (tx) => {
    await rows.joinsInTurn(tx)
    if (await isKnownIdentity(tx, publicKey)) throw knownIdentity()
    const fresh = {
      publicKey,
      transportKeys: request.transport_keys,
      name: request.name ?? null,
      commitment: request.commitment,
      routerKid: router.kid,
      nonce,
      addressHash,
    }
    await rows.withdrawJoinsOf(tx, publicKey)
    await checkRoom(tx, addressHash)
    const made = await rows.insertJoin(tx, fresh, joinRevealMs)
    // What was withdrawn above stays as it was: the transaction ends without effect.
    if (made === null) throw new Problem('nonce_reused', { param: 'commitment' })
    return made
  })
  return {
    join_id: row.joinId,
    kid: router.kid,
    public_key_ed25519: router.public_key_ed25519,
    commitment: joinCommitment('gateway', { publicKey: router.public_key_ed25519, nonce }),
    reveal_by: isoTime(row.expiresAt),
  }
}

async function reveal(joinId: string, nodeNonce: string, options: JoiningOptions): Promise<JoinRevealed> {
  const { db, identity } = options
  const join = await rows.findJoin(db, joinId)
  const router = identity.publicKeys.find(({ kid }) => kid === join?.routerKid)
  if (join === null || router === undefined || !join.live) throw gone()
  const node = { publicKey: toBase64url(join.publicKey), nonce: nodeNonce }
  if (joinCommitment('node', node) !== join.commitment) {
    throw new Problem('invalid_request', { param: 'nonce', detail: 'The nonce does not fit its commitment' })
  }
  if (join.state === 'waiting') return { nonce: join.nonce, expires_at: isoTime(join.expiresAt) }
  if (join.state !== 'begun') throw gone()
  const words = joinWords(node, { publicKey: router.public_key_ed25519, nonce: join.nonce })
  const waiting = await rows.revealJoin(db, joinId, { nodeNonce, words }, joinWaitMs)
  if (waiting === null) throw gone()
  if (waiting === 'taken') {
    throw new Problem('invalid_state', { detail: 'Another computer that waits has the same words; ask to join again' })
  }
  return { nonce: waiting.nonce, expires_at: isoTime(waiting.expiresAt) }
}

async function standing(joinId: string, db: Database): Promise<JoinStanding> {
  const join = await rows.findJoin(db, joinId)
  if (join === null || join.state === 'withdrawn') throw gone()
  if (join.state === 'confirmed') {
    const node = join.nodeId === null ? null : await getNode(db, join.nodeId)
    return node === null ? { state: 'refused' } : { state: 'confirmed', node, kid: join.routerKid }
  }
  if (join.state === 'refused') return { state: 'refused' }
  return { state: join.live ? 'waiting' : 'expired' }
}

async function confirm(
  joinId: string,
  choice: ConfirmedJoin,
  audit: AuditContext,
  { db, trail, changedHere }: JoiningOptions,
): Promise<NodeRow> {
  const nodeId = newId('node')
  const node = await db.transaction(async (tx) => {
    const join = await rows.endWaitingJoin(tx, joinId, { state: 'confirmed', nodeId })
    if (join === null) throw gone()
    if (plainWords(choice.words) !== join.words) {
      const detail = 'These are not the words of this computer. If it shows others, do not confirm it'
      throw new Problem('confirmation_required', { param: 'words', detail })
    }
    if ((await getCustomer(tx, choice.customerId)) === null) throw new Problem('customer_not_found')
    if (!(await addIdentity(tx, join.publicKey, nodeId))) throw knownIdentity()
    const made = await insertNode(
      tx,
      {
        customerId: choice.customerId as CustomerId,
        kind: 'agent',
        name: choice.name ?? join.name ?? nodeId,
        url: null,
        identityKey: join.publicKey,
        transportKeys: join.transportKeys,
        visibility: choice.visibility,
        privacyClass: choice.privacyClass,
        nodeClass: choice.nodeClass,
      },
      nodeId,
    )
    await trail.record(tx, audit, { targetId: nodeId })
    return made
  })
  await changedHere('nodes')
  return node
}
