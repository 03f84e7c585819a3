import type { CustomerReceipt } from '../../../protocol/wire/money/receipt.ts'
import { ActButtons } from '../../actions/act-button.tsx'
import { count, nothing } from '../../parts/format.ts'
import { Pill } from '../../parts/small.tsx'
import { Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'

/** The receipt of a request, and whether the public root holds it. */
export function RequestReceipt({ hash }: { hash: string }) {
  const [loaded, again] = useLoad<CustomerReceipt>(`/v1/admin/receipts/${hash}`)
  return (
    <section aria-labelledby="receipt-title" class="panel">
      <h2 id="receipt-title">Receipt</h2>
      <Part what="the receipt" loaded={loaded} again={again}>
        {({ receipt, status, batch_id, proof, billed, signature_ed25519 }) => (
          <dl class="facts">
            <div>
              <dt>Hash</dt>
              <dd>
                <code>{hash}</code>
              </dd>
            </div>
            <div>
              <dt>Status</dt>
              <dd class="acts">
                <Pill tone={status === 'rejected' ? 'bad' : status === 'held' ? 'warn' : 'good'} text={status} />
                <ActButtons kind="receipt" row={{ receipt_hash: hash, status }} on="receipt" />
              </dd>
            </div>
            <div>
              <dt>Issued by</dt>
              <dd>
                the {receipt.issuer}
                {signature_ed25519 === null ? ', unsigned' : ', signed'}
              </dd>
            </div>
            <div>
              <dt>Billed</dt>
              <dd>{billed ? 'yes' : 'no: free work'}</dd>
            </div>
            <div>
              <dt>Public root</dt>
              <dd>{proof === null ? 'not below it now' : `below it, by ${count(proof.length)} hashes`}</dd>
            </div>
            <div>
              <dt>Payout batch</dt>
              <dd>{batch_id === null ? nothing : <a href={`#statecharts/payout-batch/${batch_id}`}>{batch_id}</a>}</dd>
            </div>
          </dl>
        )}
      </Part>
    </section>
  )
}
