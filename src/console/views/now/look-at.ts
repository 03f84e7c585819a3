import { addressOf } from '../../state/place.ts'

const pool = [addressOf('pool', null), 'Look at the pool'] as const
const failed = [addressOf('requests', null, { outcome: 'failed' }), 'Look at the failed requests'] as const
const traffic = [addressOf('traffic', null), 'Look at the traffic'] as const
const money = [addressOf('money', null), 'Look at the books'] as const
const audit = [addressOf('audit', null), 'Look at the audit'] as const

/** Where the page shows more of what an alert is about; by the name of its rule. */
export const lookAt: Readonly<Record<string, readonly [address: string, words: string]>> = {
  PenstockNoReadyNode: pool,
  PenstockNodesAway: pool,
  PenstockClaimsAtBound: pool,
  PenstockTunnelsRefused: pool,
  PenstockErrors: failed,
  PenstockNodeCallsFail: failed,
  PenstockFull: failed,
  PenstockMixturesFail: failed,
  PenstockQueue: traffic,
  PenstockSlowFirstToken: traffic,
  PenstockThrashing: [addressOf('plan', null), 'Look at the plan of the memory'],
  PenstockWebhooksFail: [addressOf('jobs', null), 'Look at the webhooks'],
  PenstockReceiptsLost: money,
  PenstockReceiptForged: money,
  PenstockLogStopped: money,
  PenstockBooksBroken: money,
  PenstockAuditLost: audit,
  PenstockAuditHeadLost: audit,
  PenstockGuessing: audit,
}
