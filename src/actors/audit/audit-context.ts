import type { Database } from '../../db/client.ts'
import type { AuditMetadata } from '../../db/queries/audit/audit-events.ts'
import type { AdminAction, AdminRole, CommandAction } from '../../machines/rules/approval-policy.ts'

export type { AuditMetadata } from '../../db/queries/audit/audit-events.ts'

/** On whose word something is done. Hash prefixes are keyed; no token stands here. */
export interface Asker {
  readonly actorType: 'admin_token' | 'customer'
  readonly actorRole: AdminRole
  readonly actorHashPrefix: string | null
  /** Of the second admin, where one had to agree. */
  readonly approverHashPrefix: string | null
  readonly reason: string | null
  /** The typed text, where the action asks for one. */
  readonly confirmation: string | null
  readonly requestId: string | null
}

/** One admin call that is about to change something: every verb takes one and writes its event with it. */
export interface AuditContext extends Asker {
  readonly action: AdminAction
}

/** What the verb itself knows of its event. */
export interface Deed {
  readonly targetId: string | null
  readonly metadata?: AuditMetadata
  /** Of the command event, where the action writes one; default: a fresh one. */
  readonly commandId?: string
}

/** What the verbs need of the audit. */
export interface AuditTrail {
  /**
   * Writes the action's approval event, and the command event that belongs to it, in the transaction that does the
   * action. Throws `service_unavailable` when it cannot, and `audit_head_lost` when the events before it are gone: the
   * action must not stand without its event. The last statement of the transaction: the next event of this gateway waits for its commit.
   */
  record(tx: Database, audit: AuditContext, deed: Deed): Promise<void>
  /** A command event alone, likewise: what a customer does, or what no approval stands for. */
  command(tx: Database, asker: Asker, deed: CommandDeed): Promise<void>
}

export interface CommandDeed {
  readonly action: CommandAction
  readonly commandId: string
  readonly metadata?: AuditMetadata
}
