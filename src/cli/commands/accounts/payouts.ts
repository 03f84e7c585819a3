import type { Static } from '@sinclair/typebox'
import type { PayoutBatch, PayoutBatchList, PayoutProofList } from '../../../protocol/wire/money/money.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime, table } from '../../frame/table.ts'

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

const list = action({
  about: 'List payout batches, newest first',
  options: {
    limit: { kind: 'number', value: 'N', min: 1, max: 1_000, about: 'How many to show at most (default 100)' },
  },
  run: async ({ options, json }, session) => {
    const answer = await session.gateway().admin<PayoutBatchList>({ path: `${path}?limit=${options.limit ?? 100}` })
    session.show(json, answer, ({ batches, settlement_configured: configured }) => {
      const rows = batches.map((batch) => [
        batch.batch_id,
        batch.held ? `${batch.status}, held` : batch.status,
        batch.payout_count,
        batch.total_amount_wei,
        batch.submitted_tx_hash,
        shortTime(batch.created_at),
      ])
      const columns = ['BATCH', 'STATUS', 'PAYOUTS', 'WEI', 'TRANSACTION', 'CREATED']
      const note = configured ? '' : '\nNo blockchain is configured, so batches stay as they are.\n'
      return table(session.terminal, columns, rows, 'There are no batches.') + note
    })
    return undefined
  },
})

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

const proofs = action({
  about: 'Print the proofs of a batch, with which its nodes claim their payouts. `verify payout` checks them',
  operands: [batchOperand],
  options: {},
  run: async ({ operands, json }, session) => {
    const answer = await session
      .gateway()
      .admin<Static<typeof PayoutProofList>>({ path: `${path}/${segment(operands[0] ?? '')}/proofs` })
    session.show(json, answer, (body) =>
      table(
        session.terminal,
        ['PAYOUT', 'PAYEE', 'WEI', 'LEAF'],
        body.proofs.map((proof) => [proof.entry_id, proof.payee, proof.amount_wei, proof.leaf]),
      ),
    )
    return undefined
  },
})

export const payouts: Verb = {
  name: 'payouts',
  about: 'Show what nodes have earned and send it to the blockchain in batches',
  actions: { list, submit, proofs },
}
