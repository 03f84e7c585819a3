import { type Clock, systemClock } from '../../clock.ts'
import type { OpenDatabase } from '../../db/client.ts'
import {
  type CredentialQueries,
  type CustomerCredential,
  credentialQueries,
  type KeyCredential,
  saveKeyUses,
} from '../../db/queries/accounts/accounts.ts'
import { within } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { atMostEvery } from '../../host/outage.ts'
import type { KeyId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { mergePolicies } from '../../machines/rules/model-policy.ts'
import { equalBytes, hashToken, isWellFormedToken } from '../../secrets.ts'
import { minuteMs, secondMs } from '../../time.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import type { Access, Role } from './access.ts'
import { Callers } from './callers.ts'
import { CredentialCache, type CredentialEntry, type Loaded } from './credential-cache.ts'
import { Freshness } from './freshness.ts'

export interface AccessOptions {
  readonly db: OpenDatabase['db']
  readonly feed: ChangeFeed
  readonly log: Log
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  /** SVC_ADMIN_TOKENS, SVC_OPERATOR_TOKENS, SVC_VIEWER_TOKENS. */
  readonly roleTokens: Readonly<Record<Role, readonly string[]>>
  /** See `RoleTokensOptions.names`. */
  readonly tokenNames: ReadonlyMap<string, string>
  /** Whether the database also holds role tokens (§25: embedded, and the operator gave none). */
  readonly roleTokensInDatabase: boolean
  /** SVC_KEY_OUTAGE_MS. */
  readonly outageMs: number
  /** See `OperatorDirectoryOptions.oidcSources`. */
  readonly oidcSources: readonly Uint8Array[]
  /** SVC_SESSION_IDLE_MS. */
  readonly sessionIdleMs: number
  /** Unix ms. */
  readonly now?: () => number
  readonly clock?: Clock
}

const keysMax = 50_000
const customersMax = 1_000
const saveUsesEveryMs = 5 * secondMs
const refreshAfterMs = 20
const refreshBatch = 500
const failureLogEveryMs = secondMs

/**
 * Looks credentials up. It answers without a promise where memory knows the credential, so that the request path does
 * not wait.
 */
export class AccessDirectory {
  private readonly now: () => number
  private readonly newestPepper: string
  private readonly queries: CredentialQueries
  private readonly keys: CredentialCache
  private readonly customers: CredentialCache
  /** Who may call the administration. */
  readonly callers: Callers
  private readonly keyFreshness: Freshness
  /**
   * The hash of each key that was accepted before. Checksum and HMAC cost 5 µs, a tenth of a request. `keys` still
   * decides whether the key is valid.
   */
  private readonly idsOfKeys = new Map<string, string>()
  private uses = new Map<KeyId, number>()
  private readonly savingUses: Loop
  /** Reads the known keys again right after a change, so that an outage right after the change finds them current. */
  private readonly refreshing: Loop
  private stopped = false
  private readonly failed: (error: unknown) => void

  constructor(private readonly options: AccessOptions) {
    const { db, feed, log, outageMs, now = Date.now, clock = systemClock } = options
    const report = (error: unknown) => log.warn('access_lookup_failed', { error: failureName(error) })
    const failed = atMostEvery(failureLogEveryMs, report, clock)
    this.failed = failed
    this.savingUses = loop({ everyMs: saveUsesEveryMs, run: () => this.saveUses(), clock })
    const pauseMs = Number.POSITIVE_INFINITY
    this.refreshing = loop({ pauseMs, run: () => this.refresh(), onFailure: failed, clock })
    const [newestPepper] = options.peppers
    if (newestPepper === undefined) throw new Error('The gateway has no token pepper')
    this.newestPepper = newestPepper
    this.now = now
    this.queries = credentialQueries(db)
    this.keyFreshness = new Freshness(feed, ['gateway_keys', 'customers'], now, () =>
      this.refreshing.soon(refreshAfterMs),
    )
    this.keys = new CredentialCache({ freshness: this.keyFreshness, now, outageMs, failed, entriesMax: keysMax })
    const freshness = new Freshness(feed, ['customers'], now)
    this.customers = new CredentialCache({ freshness, now, outageMs, failed, entriesMax: customersMax })
    this.callers = new Callers({
      db,
      feed,
      fromEnvironment: options.roleTokens,
      names: options.tokenNames,
      table: options.roleTokensInDatabase ? { db, feed } : null,
      peppers: options.peppers,
      idleMs: options.sessionIdleMs,
      oidcSources: options.oidcSources,
      outageMs,
      now,
      failed,
    })
  }

  /** Reads the role tokens and the sessions; start the change feed before. */
  async start(): Promise<void> {
    this.savingUses.start()
    this.refreshing.start()
    await this.callers.start()
  }

  /** Writes the last uses of keys, sessions and named tokens. */
  async stop(): Promise<void> {
    this.stopped = true
    void this.savingUses.stop()
    void this.refreshing.stop()
    await this.saveUses()
  }

  /**
   * Returns null for an unknown, expired or revoked key. Rejects with `Problem('service_unavailable')` if the database
   * is away and memory does not know the key.
   */
  gatewayKey(token: string): Access | null | Promise<Access | null> {
    const seen = this.idsOfKeys.get(token)
    if (seen !== undefined) return this.keys.find(seen, () => this.loadKey(token), this.noteUse)
    if (!isWellFormedToken(token, 'gateway')) return null
    const id = this.cacheId(token)
    const found = this.keys.find(id, () => this.loadKey(token), this.noteUse)
    if (found !== null && !(found instanceof Promise)) this.rememberId(token, id)
    return found
  }

  /** Whether this key was accepted lately. Only `gatewayKey` says whether it still is: after any change it is read again. */
  remembersKey(token: string): boolean {
    const seen = this.idsOfKeys.get(token)
    return seen !== undefined && this.keys.remembers(seen)
  }

  /** Checks customer headers. Returns null both for an unknown id and for a wrong token. */
  customer(customerId: string, token: string): Access | null | Promise<Access | null> {
    if (!isWellFormedToken(token, 'customer')) return null
    // The id of the entry combines token and customer id, so that a wrong token for a known id takes the same path as
    // an unknown id.
    const id = this.cacheId(token) + customerId
    return this.customers.find(
      id,
      () => this.loadCustomer(customerId, token),
      () => {},
    )
  }

  /** See `Callers.role`. */
  role(token: string): Role | null {
    return this.callers.role(token)
  }

  /** True if one token is in the lists of two roles. */
  tokenSharedAcrossRoles(): boolean {
    return this.callers.sharedAcrossRoles()
  }

  /** From now on this process refuses the key that it has just revoked, even if the database fails. */
  forgetKey(keyId: KeyId): void {
    this.keys.forget((entry) => entry.access?.keyId === keyId)
  }

  private rememberId(token: string, id: string): void {
    if (this.idsOfKeys.size >= keysMax) this.idsOfKeys.clear()
    this.idsOfKeys.set(token, id)
  }

  /** Memory finds a token by its hash under the newest pepper, even if its row was hashed with an older one. */
  private cacheId(token: string): string {
    return hashToken(this.newestPepper, token).toString('latin1')
  }

  private async loadKey(token: string): Promise<Loaded | null> {
    for (const pepper of this.options.peppers) {
      const hash = hashToken(pepper, token)
      const row = await this.queries.keyByHash(hash)
      if (row !== null && equalBytes(row.keyHash, hash)) return { access: accessOfKey(row), hash: row.keyHash }
    }
    return null
  }

  private async loadCustomer(customerId: string, token: string): Promise<Loaded | null> {
    const row = await this.queries.customerById(customerId)
    const expected = row?.tokenHash ?? noHash
    let equal = false
    for (const pepper of this.options.peppers) equal = equalBytes(expected, hashToken(pepper, token)) || equal
    return row !== null && equal ? { access: accessOfCustomer(row), hash: row.tokenHash } : null
  }

  private readonly noteUse = (entry: CredentialEntry): void => {
    const minute = Math.floor(this.now() / minuteMs)
    const keyId = entry.access?.keyId
    if (entry.usedMinute === minute || keyId == null) return
    entry.usedMinute = minute
    if (this.uses.size < keysMax) this.uses.set(keyId, minute * minuteMs)
  }

  private async saveUses(): Promise<void> {
    const uses = this.uses
    this.uses = new Map()
    try {
      await within(saveUsesEveryMs, saveKeyUses(this.options.db, uses))
    } catch (error) {
      this.failed(error)
      for (const [keyId, at] of uses) if (!this.uses.has(keyId)) this.uses.set(keyId, at)
    }
    await this.callers.saveUses().catch(this.failed)
  }

  private async refresh(): Promise<void> {
    for (;;) {
      const entries = this.keys.outdated(refreshBatch)
      if (entries.length === 0 || this.stopped) return
      const mark = this.keyFreshness.mark()
      const rows = await this.queries.keysByHashes(entries.map((entry) => entry.hash))
      const byHash = new Map(rows.map((row) => [row.keyHash.toString('latin1'), row]))
      const gone = new Set<CredentialEntry>()
      for (const entry of entries) {
        const row = byHash.get(entry.hash.toString('latin1'))
        if (row === undefined) gone.add(entry)
        else {
          entry.access = accessOfKey(row)
          entry.mark = mark
        }
      }
      if (gone.size > 0) this.keys.forget((entry) => gone.has(entry))
    }
  }
}

/** A random hash, which is compared with the token of an unknown customer to take the same time. */
const noHash = Buffer.from(crypto.getRandomValues(new Uint8Array(32)))

function accessOfKey(row: KeyCredential): Access {
  return {
    customerId: row.customerId,
    keyId: row.keyId,
    accountStatus: row.accountStatus,
    expiresAtMs: row.expiresAt?.getTime() ?? null,
    policy: mergePolicies(row.gatewayPolicy, { policy: row.modelPolicy, nodeScope: row.nodeScope }),
  }
}

function accessOfCustomer(row: CustomerCredential): Access {
  return {
    customerId: row.customerId,
    keyId: null,
    accountStatus: row.accountStatus,
    expiresAtMs: null,
    policy: mergePolicies(row.gatewayPolicy, null),
  }
}
