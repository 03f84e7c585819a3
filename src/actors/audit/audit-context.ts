import type { Database } from '../../db/client.ts'
import type { AuditMetadata } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole, CommandAction, TargetType } from '../../machines/rules/admin-route.ts'

export type { AuditMetadata } from '../../db/queries/audit/audit-events.ts'

/** The person who asked for an action. Hash prefixes are keyed, and no token is stored here. */
export interface Asker {
  /** `gateway`: it acts by itself, as its plan of the memory says. */
  readonly actorType: 'admin_token' | 'customer' | 'gateway'
  readonly actorRole: AdminRole
  readonly actorHashPrefix: string | null
  /** The hash prefix of the second admin, if one had to agree. */
  readonly approverHashPrefix: string | null
  readonly reason: string | null
  /** The typed confirmation, if the action asks for one. */
  readonly confirmation: string | null
  readonly requestId: string | null
}

/** One admin call that is about to change something. Every verb takes one and writes its audit event with it. */
export interface AuditContext extends Asker {
  /** The name of its row of the approval policy. */
  readonly action: string
}

/** What only the verb knows about its event. */
export interface Deed {
  readonly targetId: string | null
  /** Where one action is about several kinds of targets; absent: that of its row of the policy. */
  readonly targetType?: TargetType
  readonly metadata?: AuditMetadata
  /** The id of the command event, if the action writes one. The default is a new id. */
  readonly commandId?: string
}

/** The part of the audit that verbs need. */
export interface AuditTrail {
  /**
   * Writes the action's approval event, and the command event that belongs to it, in the transaction that does the
   * action. Throws `service_unavailable` when it cannot, and `audit_head_lost` when the events before it are gone: the
   * action must not stand without its event. The last statement of the transaction: the next event of this gateway waits for its commit.
   */
  record(tx: Database, audit: AuditContext, deed: Deed): Promise<void>
  /** Writes a command event alone: for an action of a customer, or one that needs no approval event. */
  command(tx: Database, asker: Asker, deed: CommandDeed): Promise<void>
}

export interface CommandDeed {
  readonly action: CommandAction
  readonly commandId: string
  readonly metadata?: AuditMetadata
}
