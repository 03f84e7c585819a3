import { useEffect, useRef } from 'preact/hooks'
import type { CustomerReceipt } from '../../../protocol/wire/money/receipt.ts'
import { ActButtons } from '../../actions/act-button.tsx'
import { count, nothing } from '../../parts/format.ts'
import { Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { type Loaded, useLoad } from '../../state/load.ts'

/** A receipt is written a moment after its answer: one that is not there is looked for again after each of these, ms, and then is missing. */
const looksAgainMs = [250, 500, 1_000, 2_000, 4_000, 8_000] as const

/** `coming`: it is not there, and is looked for again. */
function useReceipt(hash: string): readonly [Loaded<CustomerReceipt>, () => void, boolean] {
  const [loaded, again] = useLoad<CustomerReceipt>(`/v1/admin/receipts/${hash}`)
  const looks = useRef({ hash, times: 0 })
  if (looks.current.hash !== hash) looks.current = { hash, times: 0 }
  const missing = loaded.kind === 'failed' && loaded.code === 'receipt_not_found'
  useEffect(() => {
    const waitMs = missing ? looksAgainMs[looks.current.times++] : undefined
    if (waitMs === undefined) return
    const timer = setTimeout(again, waitMs)
    return () => clearTimeout(timer)
  }, [loaded, missing, again])
  return [loaded, again, missing && looks.current.times < looksAgainMs.length]
}

/** The receipt of a request, and whether the public root holds it. */
export function RequestReceipt({ hash }: { hash: string }) {
  const [loaded, again, coming] = useReceipt(hash)
  return (
    <section aria-labelledby="receipt-title" class="panel">
      <h2 id="receipt-title">Receipt</h2>
      {coming ? (
        <Empty title="Not written yet">The gateway writes it a moment after the answer. This page looks again.</Empty>
      ) : (
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
                <dd>
                  {batch_id === null ? nothing : <a href={`#statecharts/payout-batch/${batch_id}`}>{batch_id}</a>}
                </dd>
              </div>
            </dl>
          )}
        </Part>
      )}
    </section>
  )
}
