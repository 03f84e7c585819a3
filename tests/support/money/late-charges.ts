import { Ledger } from '../../../src/actors/money/ledger.ts'
import type { DatabaseAccess } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import type { ScriptedCall } from '../nodes/scripted-node.ts'
import { testMacs } from './receipt-macs.ts'

/** A reservation as its row has it. */
interface Reserved {
  readonly id: string
  readonly wei: string
}

/** Another gateway ends these reservations of a customer. Then nodes answer all calls with four words, and the charges for the ended ones come too late. */
export async function answerTooLate(
  database: DatabaseAccess,
  customerId: string,
  ended: readonly Reserved[],
  held: readonly ScriptedCall[],
): Promise<void> {
  const other = new Ledger({ ...database, macs: testMacs, log: createLog('silent', () => {}) })
  for (const { id, wei } of ended) other.release({ id, customerId, amountWei: BigInt(wei) })
  await other.stop()
  for (const call of held)
    call.respond(200, {
      choices: [{ index: 0, text: 'four words are here', finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 4, total_tokens: 5 },
    })
}
