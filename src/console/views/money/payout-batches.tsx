import type { BatchStatus, PayoutBatch, PayoutBatchList } from '../../../protocol/wire/money/money.ts'
import { ActButton, ActButtons } from '../../actions/act-button.tsx'
import { payOut } from '../../actions/payout-acts.ts'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { Id, Pill } from '../../parts/small.tsx'
import { Cut, Empty, Part } from '../../parts/states.tsx'
import { Transaction, useExplorer } from '../../parts/transaction.tsx'
import { Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'

const everyMs = 10_000
const batchesMax = 1_000

const batchTones: Readonly<Record<BatchStatus, string>> = {
  created: 'plain',
  submitting: 'info',
  submitted: 'info',
  completed: 'good',
}

export function Batches() {
  const [list, again] = useLoad<PayoutBatchList>(`/v1/admin/payout-batches?limit=${batchesMax}`, everyMs)
  const explorer = useExplorer()
  return (
    <Part what="payout batches" loaded={list} again={again}>
      {({ batches, settlement_configured }) => (
        <section aria-labelledby="batches-title">
          <div class="title-bar">
            <h2 id="batches-title">Payout batches</h2>
            <ActButton act={payOut()} label="Pay out now" kind="primary" />
          </div>
          {!settlement_configured && (
            <p class="muted">No blockchain is configured, so batches stay as they are and nothing is paid out.</p>
          )}
          {batches.length === 0 ? (
            <Empty title="No batch yet">
              The gateway makes one when pending payouts are old enough or large enough.
            </Empty>
          ) : (
            <>
              <LongTable
                label="Payout batches, newest first"
                rows={batches}
                keyOf={({ batch_id: id }) => id}
                textOf={textOf}
                columns={columnsOf(explorer)}
                actions={(batch) => <ActButtons kind="payout batch" row={batch} on={batch.batch_id} />}
              />
              <Cut rows={batches.length} limit={batchesMax} what="the newest batches" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}

const textOf = ({ batch_id: id, status, last_error: error, submitted_tx_hash: hash }: PayoutBatch) =>
  [id, status, error, hash].join(' ')

const columnsOf = (explorer: string): readonly Column<PayoutBatch>[] => [
  {
    title: 'Batch',
    show: ({ batch_id: id }) => (
      <a href={`#statecharts/payout-batch/${id}`}>
        <Id id={id} />
      </a>
    ),
  },
  {
    title: 'State',
    by: ({ status }) => status,
    show: ({ status }) => <Pill tone={batchTones[status]} text={status} />,
  },
  {
    title: 'Payouts',
    number: true,
    by: ({ payout_count: payouts }) => payouts,
    show: ({ payout_count: payouts }) => count(payouts),
  },
  {
    title: 'Amount',
    number: true,
    by: ({ total_amount_wei: wei }) => Number(wei),
    show: ({ total_amount_wei: wei }) => <Wei wei={wei} />,
  },
  {
    title: 'Transaction',
    show: ({ submitted_tx_hash: hash }) => (hash === null ? nothing : <Transaction hash={hash} explorer={explorer} />),
  },
  {
    title: 'Trouble',
    by: ({ last_error: error }) => error,
    show: ({ held, last_error: error }) => (
      <span>
        {held && <Pill tone="bad" text="held" />} {error !== null && <code>{error}</code>}
        {!held && error === null && nothing}
      </span>
    ),
  },
  { title: 'Made', by: ({ created_at: at }) => at, show: ({ created_at: at }) => shortTime(at) },
]
