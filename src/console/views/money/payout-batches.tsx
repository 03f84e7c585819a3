import type { BatchStatus, PayoutBatch, PayoutBatchList } from '../../../protocol/wire/money/money.ts'
import { ActButton } from '../../actions/act-button.tsx'
import { retryBatch } from '../../actions/work-acts.ts'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Id, Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { Transaction, useExplorer } from '../../parts/transaction.tsx'
import { Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'

const everyMs = 10_000

const batchTones: Readonly<Record<BatchStatus, string>> = {
  created: 'plain',
  submitting: 'info',
  submitted: 'info',
  completed: 'good',
}

export function Batches() {
  const [list, again] = useLoad<PayoutBatchList>('/v1/admin/payout-batches?limit=100', everyMs)
  const explorer = useExplorer()
  return (
    <Part what="payout batches" loaded={list} again={again}>
      {({ batches, settlement_configured }) => (
        <section aria-labelledby="batches-title">
          <h2 id="batches-title">Payout batches</h2>
          {!settlement_configured && (
            <p class="muted">No blockchain is configured, so batches stay as they are and nothing is paid out.</p>
          )}
          {batches.length === 0 ? (
            <Empty title="No batch yet">
              The gateway makes one when pending payouts are old enough or large enough.
            </Empty>
          ) : (
            <Frame label="Payout batches, newest first">
              <table class="cards">
                <thead>
                  <tr>
                    <th scope="col">Batch</th>
                    <th scope="col">State</th>
                    <th scope="col" class="number">
                      Payouts
                    </th>
                    <th scope="col" class="number">
                      Amount
                    </th>
                    <th scope="col">Transaction</th>
                    <th scope="col">Trouble</th>
                    <th scope="col">Made</th>
                    <th scope="col">
                      <span class="visually-hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {batches.map((batch) => (
                    <BatchRow key={batch.batch_id} batch={batch} explorer={explorer} />
                  ))}
                </tbody>
              </table>
            </Frame>
          )}
        </section>
      )}
    </Part>
  )
}

function BatchRow({ batch, explorer }: { batch: PayoutBatch; explorer: string }) {
  const { batch_id, submitted_tx_hash: hash } = batch
  return (
    <tr>
      <th scope="row">
        <a href={`#statecharts/payout-batch/${batch_id}`}>
          <Id id={batch_id} />
        </a>
      </th>
      <td data-label="State">
        <Pill tone={batchTones[batch.status]} text={batch.status} />
      </td>
      <td data-label="Payouts" class="number">
        {count(batch.payout_count)}
      </td>
      <td data-label="Amount" class="number">
        <Wei wei={batch.total_amount_wei} />
      </td>
      <td data-label="Transaction">{hash === null ? nothing : <Transaction hash={hash} explorer={explorer} />}</td>
      <td data-label="Trouble">
        <span>
          {batch.held && <Pill tone="bad" text="held" />} {batch.last_error !== null && <code>{batch.last_error}</code>}
          {!batch.held && batch.last_error === null && nothing}
        </span>
      </td>
      <td data-label="Made">{shortTime(batch.created_at)}</td>
      <td class="actions">{batch.held && <ActButton act={retryBatch(batch)} on={batch_id} />}</td>
    </tr>
  )
}
