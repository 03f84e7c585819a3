import { parseCheckpoint, parseLogProof } from '../../../protocol/log/checkpoint.ts'
import { parseNote } from '../../../protocol/log/note.ts'
import type { CustomerReceipt } from '../../../protocol/wire/money/receipt.ts'
import { action, type Verb } from '../../frame/action.ts'
import { openKnownLogs } from './known-logs.ts'

const exported = action({
  about:
    'Print one file with all that `verify receipt` needs: the facts, their signature, their place in the log, and how the log grew',
  operands: [{ name: 'HASH', about: 'The receipt hash that came with an answer' }],
  options: {},
  run: async ({ operands }, session) => {
    const gateway = session.gateway()
    const receipt = await gateway.customer<CustomerReceipt>(
      `/v1/billing/receipts/${encodeURIComponent(operands[0] ?? '')}`,
    )
    const note = parseLogProof(receipt.log?.log_proof ?? '')?.note
    const now = parseCheckpoint(parseNote(note ?? '')?.text ?? '')
    const before = now === null ? null : openKnownLogs(session.env).remembered(now.origin)
    const consistency: unknown[] = []
    if (now !== null && before !== null && before.size !== now.size) {
      const [from, to] = [Math.min(before.size, now.size), Math.max(before.size, now.size)]
      consistency.push((await gateway.get(`/v1/public/log/proof?from=${from}&to=${to}`, false)).body)
    }
    session.show(true, { ...receipt, consistency }, () => '')
    return undefined
  },
})

export const receipts: Verb = {
  name: 'receipts',
  about: 'Export receipts of your own requests as files that prove themselves',
  actions: { export: exported },
}
