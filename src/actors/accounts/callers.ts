import type { Caller, Role } from './access.ts'
import { OperatorDirectory, type OperatorDirectoryOptions } from './operator-directory.ts'
import { RoleTokens, type RoleTokensOptions } from './role-tokens.ts'

export type CallersOptions = RoleTokensOptions & Omit<OperatorDirectoryOptions, 'roleOfSource'>

/** Everybody who may call the administration: role tokens without a name, those with one, and sessions of the console. */
export class Callers {
  private readonly tokens: RoleTokens
  private readonly operators: OperatorDirectory

  constructor(options: CallersOptions) {
    this.tokens = new RoleTokens(options)
    this.operators = new OperatorDirectory({ ...options, roleOfSource: (hash) => this.tokens.roleOfSource(hash) })
  }

  async start(): Promise<void> {
    await this.tokens.start()
    await this.operators.start()
  }

  /**
   * The role of a role token, as far as memory knows; a session is no role token. It compares with every token of the
   * environment, so that its duration says nothing about them. Throws `service_unavailable` where only the database could tell.
   */
  role(token: string): Role | null {
    const named = this.operators.known(token)
    if (named === null) return this.tokens.role(token)
    return named.sessionId === null ? named.role : null
  }

  /** Also asks the database for what memory does not know. Rejects with `service_unavailable` where it does not answer. */
  async find(token: string): Promise<Caller | null> {
    const unnamed = this.unnamed(token)
    if (unnamed !== null) return unnamed
    const found = await this.operators.find(token)
    if (found === null) this.tokens.refuseInDoubt()
    return found
  }

  /** The same without a wait, as far as memory knows. */
  known(token: string): Caller | null {
    return this.unnamed(token) ?? this.operators.known(token)
  }

  /** See `OperatorDirectory.use`. */
  use(caller: Caller, attended: boolean): void {
    this.operators.use(caller, attended)
  }

  /** See `OperatorDirectory.isGone`. */
  isGone(caller: Caller): boolean {
    return this.operators.isGone(caller)
  }

  /** See `OperatorDirectory.lastSeenMs`. */
  lastSeenMs(session: Parameters<OperatorDirectory['lastSeenMs']>[0]): number {
    return this.operators.lastSeenMs(session)
  }

  /** See `OperatorDirectory.saveUses`. */
  saveUses(): Promise<void> {
    return this.operators.saveUses()
  }

  /** See `RoleTokens.sharedAcrossRoles`. */
  sharedAcrossRoles(): boolean {
    return this.tokens.sharedAcrossRoles()
  }

  private unnamed(token: string): Caller | null {
    const matched = this.tokens.match(token)
    return matched === null ? null : { ...matched, adminId: null, sessionId: null, actorHash: null }
  }
}
