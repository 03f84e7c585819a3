import type { NodeId } from '../ids.ts'
import { seededKey } from './accounts/seeded-key.ts'
import type { AuditContext } from './audit/audit-context.ts'
import type { AuditLog } from './audit/audit-log.ts'
import { sharedRun } from './durable/shared-run.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { checkBooks } from './log/books-check.ts'
import { createCosigning } from './log/cosigning.ts'
import { nameFork } from './log/fork.ts'
import { createPublicLog } from './log/public-log.ts'
import type { ReceiptMacs } from './log/receipt-macs.ts'
import { createSequencer } from './log/sequencer.ts'
import { agentWitnesses, foreignWitness } from './log/witnesses.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import { LogPromises } from './promises/log-promises.ts'

/** The public log (§31). */
export function createTransparency(
  { config, log, database, logKeys, logMemory, peppers }: GatewayParts,
  { audit: trail, macs }: { readonly audit: AuditLog; readonly macs: ReceiptMacs },
  router: PoolRouter,
) {
  const [newest, ...older] = logKeys.map(seededKey)
  if (newest === undefined) throw new Error('The gateway has no key to sign its log with')
  const keys = [newest, ...older] as const
  const { db } = database
  const sequencer = createSequencer({
    db,
    log,
    keys,
    macs,
    intervalMs: config.SVC_LOG_INTERVAL_MS,
    memory: logMemory,
    plainUntilMs: Date.parse(config.SVC_LOG_PLAIN_UNTIL ?? '') || 0,
  })
  const promises = new LogPromises({ key: newest, log: () => (sequencer.takesReceipts() ? sequencer.origin() : null) })
  const foreign = config.SVC_LOG_WITNESSES.flatMap((text) => foreignWitness(text) ?? [])
  const witnesses = async () => [
    ...foreign,
    ...(await agentWitnesses(db, (nodeId) => router.transport(nodeId as NodeId))),
  ]
  return {
    sequencer,
    promises,
    cosigning: createCosigning({ db, log, keys, sequencer, witnesses, everyMs: config.SVC_LOG_COSIGN_MS }),
    publicLog: createPublicLog({ db, log, keys, others: foreign.map(({ key }) => key) }),
    nameFork: (context: AuditContext) => nameFork({ db, trail, keys, sequencer }, context),
    checkBooks: sharedRun(() => checkBooks({ db, keys, fork: () => sequencer.fork(), marked: { macs, peppers } })),
  }
}
