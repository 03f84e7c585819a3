import type { PayoutBatch } from '../../../protocol/wire/money/money.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'

const path = '/v1/admin/payout-batches'
const batchOperand = { name: 'BATCH_ID', about: 'The batch id, as `payouts list` shows it' } as const

const described = (session: Session, batch: PayoutBatch) =>
  fields(session.terminal, [
    ['Batch', batch.batch_id],
    ['Status', batch.held ? `${batch.status}, held` : batch.status],
    ['Payouts', batch.payout_count],
    ['Amount', `${batch.total_amount_wei} wei`],
    ['Root', batch.merkle_root],
    ['Transaction', batch.submitted_tx_hash],
    ['Last error', batch.last_error],
  ])

const submit = action({
  about: 'Continue with a batch at once. With --retry also one that is on hold after reverts',
  operands: [batchOperand],
  options: {
    retry: { kind: 'flag', about: 'Also continue with a batch that is on hold after reverts' },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const batch = await session.gateway().admin<PayoutBatch>({
      method: 'POST',
      path: `${path}/${segment(operands[0] ?? '')}/${options.retry ? 'retry' : 'submit'}`,
      approved: true,
      body: reasonBody(options.reason),
    })
    session.show(json, batch, (body) => described(session, body))
    return undefined
  },
})

export const payouts: Verb = {
  name: 'payouts',
  about: 'Show what nodes have earned and send it to the blockchain in batches',
  actions: { submit },
}
