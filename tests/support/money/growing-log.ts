import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { createSequencer } from '../../../src/actors/log/sequencer.ts'
import type { DatabaseAccess } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { testMacs } from './receipt-macs.ts'

/** A log that takes entries when it is told to, without a gateway. `grow` adds one, and a checkpoint behind it. */
export async function growingLog({ db, sql }: DatabaseAccess) {
  const keys = [seededKey('77'.repeat(32))] as const
  const log = createLog('silent', () => {})
  const sequencer = createSequencer({ db, log, keys, macs: testMacs, intervalMs: 600_000, memory: null })
  await sequencer.start()
  let entries = 0
  const grow = async () => {
    await sql`insert into payee_statements (node_id, payee, signed_at, signature_ed25519) values (${`n${entries++}`}, 'p', now(), 's')`
    await sequencer.catchUp({ heads: true })
  }
  return { db, log, keys, sequencer, grow }
}
