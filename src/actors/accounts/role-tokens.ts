import { createHash } from 'node:crypto'
import type { Database } from '../../db/client.ts'
import { type RoleTokenRow, readRoleTokens } from '../../db/queries/accounts/accounts.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { equalBytes, hashToken, isWellFormedToken } from '../../secrets.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import type { Role } from './access.ts'
import { Freshness, type ReadMark } from './freshness.ts'

export interface RoleTokensOptions {
  /** SVC_ADMIN_TOKENS and so on: raw tokens or `sha256:<hex>`. */
  readonly fromEnvironment: Readonly<Record<Role, readonly string[]>>
  /** SVC_TOKEN_NAMES: by the SHA-256 of the token, in hex. */
  readonly names: ReadonlyMap<string, string>
  /** The tokens of the first start; null with DATABASE_URL. */
  readonly table: { readonly db: Database; readonly feed: ChangeFeed } | null
  /** Newest first. */
  readonly peppers: readonly string[]
  readonly outageMs: number
  readonly now: () => number
  readonly failed: (error: unknown) => void
}

const readWaitMs = 2_000
const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }
const digestForm = /^sha256:([0-9a-fA-F]{64})$/

/** A token of the environment. `sources`: what a session made with it remembers, by each pepper. */
interface GivenToken {
  readonly role: Role
  readonly digest: Buffer
  readonly sources: readonly Buffer[]
}

export interface MatchedToken {
  readonly role: Role
  /** Keyed by the pepper, so that a session can remember the token that made it. */
  readonly sourceHash: Uint8Array
  /** null: SVC_TOKEN_NAMES does not name it. */
  readonly name: string | null
}

/** The role tokens of the environment and of the database. */
export class RoleTokens {
  private readonly given: readonly GivenToken[]
  private readonly freshness: Freshness | null
  private rows: readonly RoleTokenRow[] = []
  private mark: ReadMark | null = null
  private reading: Promise<void> | null = null

  constructor(private readonly options: RoleTokensOptions) {
    this.given = (['admin', 'operator', 'viewer'] as const).flatMap((role) =>
      options.fromEnvironment[role].map((entry) => this.givenToken(role, digestOf(entry))),
    )
    const { table, now } = options
    this.freshness = table === null ? null : new Freshness(table.feed, ['admin_tokens'], now, () => void this.read())
  }

  async start(): Promise<void> {
    if (this.freshness !== null) await this.read()
  }

  /** Throws `service_unavailable` if only the database could tell. */
  role(token: string): Role | null {
    const matched = this.match(token)
    if (matched === null) this.refuseInDoubt()
    return matched?.role ?? null
  }

  /** Compares with every entry, even after a match. null: memory knows no such token. */
  match(token: string): MatchedToken | null {
    let best: Omit<MatchedToken, 'name'> | null = null
    const raise = (found: Omit<MatchedToken, 'name'>) => {
      if (best === null || ranks[found.role] > ranks[best.role]) best = found
    }
    const digest = createHash('sha256').update(token).digest()
    for (const { role, digest: own, sources } of this.given) {
      if (equalBytes(own, digest)) raise({ role, sourceHash: sources[0] ?? own })
    }
    const inTable = this.tableMatch(token)
    if (inTable !== null) raise(inTable)
    return best === null
      ? null
      : { ...(best as Omit<MatchedToken, 'name'>), name: this.options.names.get(digest.toString('hex')) ?? null }
  }

  /** The role of a token that `match` has found before; null: it is gone. `unknown`: only the database could tell. */
  roleOfSource(sourceHash: Uint8Array): Role | 'unknown' | null {
    const given = this.given.find(({ sources }) => sources.some((source) => equalBytes(source, sourceHash)))
    if (given !== undefined) return given.role
    if (this.freshness === null) return null
    if (this.tableDoubtMs() > this.options.outageMs) return 'unknown'
    return this.rows.find(({ tokenHash }) => equalBytes(tokenHash, sourceHash))?.role ?? null
  }

  /**
   * True if one token stands for two roles, because the audit could not tell later which role acted. It cannot find
   * digests in the table.
   */
  sharedAcrossRoles(): boolean {
    const roles = new Map<string, Role>()
    for (const { role, digest } of this.given) {
      const key = digest.toString('hex')
      if ((roles.get(key) ?? role) !== role) return true
      roles.set(key, role)
    }
    return Object.entries(this.options.fromEnvironment).some(([role, entries]) =>
      entries.some((entry) => (this.tableMatch(entry)?.role ?? role) !== role),
    )
  }

  private givenToken(role: Role, digest: Buffer): GivenToken {
    const sources = this.options.peppers.map((pepper) => hashToken(pepper, digest.toString('hex')))
    return { role, digest, sources }
  }

  private tableDoubtMs(): number {
    const { freshness, mark } = this
    return freshness === null || mark === null ? Number.POSITIVE_INFINITY : freshness.doubtMs(mark)
  }

  private tableMatch(token: string): Omit<MatchedToken, 'name'> | null {
    if (this.freshness === null) return null
    let best: Omit<MatchedToken, 'name'> | null = null
    for (const pepper of this.options.peppers) {
      const hash = hashToken(pepper, token)
      for (const { role, tokenHash } of this.rows) {
        if (
          equalBytes(tokenHash, hash) &&
          isWellFormedToken(token, role) &&
          (best === null || ranks[role] > ranks[best.role])
        ) {
          best = { role, sourceHash: tokenHash }
        }
      }
    }
    return this.tableDoubtMs() <= this.options.outageMs ? best : null
  }

  /**
   * Throws `service_unavailable` where the database is away: another gateway may have made a token that memory does not
   * know, so an unknown token may be valid.
   */
  refuseInDoubt(): void {
    const { freshness, mark } = this
    if (freshness === null || (mark !== null && freshness.isFresh(mark))) return
    void this.read()
    throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
  }

  private async read(): Promise<void> {
    const { table } = this.options
    if (table === null) return
    if (this.reading !== null) {
      await this.reading
      // That read may have begun before the change.
      if (this.mark !== null && this.freshness?.isCurrent(this.mark)) return
    }
    this.reading ??= this.readOnce(table.db).finally(() => {
      this.reading = null
    })
    await this.reading
  }

  private async readOnce(db: Database): Promise<void> {
    const mark = this.freshness?.mark() ?? null
    try {
      this.rows = await within(readWaitMs, readRoleTokens(db))
      this.mark = mark
    } catch (error) {
      this.options.failed(error)
    }
  }
}

function digestOf(entry: string): Buffer {
  const hex = digestForm.exec(entry)?.[1]
  return hex === undefined ? createHash('sha256').update(entry).digest() : Buffer.from(hex, 'hex')
}
