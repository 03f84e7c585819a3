import { useLoad } from '../load.ts'
import { count, ether, nothing, shortTime } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Figure, Id, Pill } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'

const everyMs = 15_000

/** `GET /v1/admin/ledger/proof`. */
interface Proof {
  readonly balanced: boolean
  readonly broken_rules: readonly string[]
  readonly credits_wei: string
  readonly balances_wei: string
  readonly debits_wei: string
  readonly payouts_wei: string
  readonly fees_wei: string
  readonly reserved_wei: string
  readonly entries: number
  readonly generated_at: string
}

/** `GET /v1/admin/billing/treasury-report`. */
interface Treasury {
  readonly window_days: number
  readonly totals: {
    readonly customer_debits_wei: string
    readonly node_payouts_wei: string
    readonly protocol_fees_wei: string
  }
  readonly settlement_statuses: readonly {
    readonly settlement_status: string
    readonly payout_count: number
    readonly total_payout_wei: string
    readonly total_amount_wei: string
  }[]
}

/** `GET /v1/admin/payout-batches`. */
interface Batch {
  readonly batch_id: string
  readonly payout_count: number
  readonly total_amount_wei: string
  readonly status: string
  readonly submitted_tx_hash: string | null
  readonly created_at: string
  readonly finalized_at: string | null
  readonly held?: boolean
  readonly last_error?: string | null
}

/** `GET /v1/public/settlement`. */
interface Settlement {
  readonly payout_settlement: { readonly network_name: string; readonly explorer_url: string }
}

/** `GET /v1/admin/customers`. */
interface Account {
  readonly customer_id: string
  readonly display_name: string
  readonly account_status: string
  readonly balance_wei: string
  readonly reserved_wei: string
  readonly available_wei: string
}

/** Whole wei in the title, its unit in the text: both are exact where the text says so. */
const Wei = ({ wei }: { wei: string }) => <span title={`${wei} wei`}>{ether(wei)}</span>

const batchTones: Readonly<Record<string, string>> = {
  created: 'plain',
  submitting: 'info',
  submitted: 'info',
  completed: 'good',
}

export function Money() {
  return (
    <>
      <div class="title-row">
        <h1>Money</h1>
        <p class="muted">In units of 10¹⁸ wei; the exact number of wei is each amount's title</p>
      </div>
      <Books />
      <TreasuryPart />
      <Batches />
      <Balances />
    </>
  )
}

function Books() {
  const [proof, again] = useLoad<Proof>('/v1/admin/ledger/proof', everyMs)
  return (
    <Part what="the books" loaded={proof} again={again}>
      {(data) => (
        <section aria-labelledby="books-title">
          <h2 id="books-title">Books</h2>
          <p class={data.balanced ? 'verdict good' : 'verdict bad'} role={data.balanced ? undefined : 'alert'}>
            {data.balanced
              ? `The books balance: every one of ${count(data.entries)} entries adds up`
              : `The books do not balance: ${data.broken_rules.join(', ')}`}
          </p>
          <dl class="figures">
            <Figure name="Credits" value={ether(data.credits_wei)} />
            <Figure name="Balances" value={ether(data.balances_wei)} />
            <Figure name="Reserved" value={ether(data.reserved_wei)} />
            <Figure name="Debits" value={ether(data.debits_wei)} />
            <Figure name="To nodes" value={ether(data.payouts_wei)} />
            <Figure name="Fees" value={ether(data.fees_wei)} />
          </dl>
        </section>
      )}
    </Part>
  )
}

function TreasuryPart() {
  const [report, again] = useLoad<Treasury>('/v1/admin/billing/treasury-report', everyMs)
  return (
    <Part what="the treasury report" loaded={report} again={again}>
      {(data) => (
        <section aria-labelledby="payouts-title">
          <h2 id="payouts-title">Payouts, last {data.window_days} days</h2>
          {data.settlement_statuses.length === 0 ? (
            <Empty title="No payout in this time">Paid work on nodes of others makes one.</Empty>
          ) : (
            <Frame label="Payouts by state">
              <table>
                <thead>
                  <tr>
                    <th scope="col">State</th>
                    <th scope="col" class="number">
                      Payouts
                    </th>
                    <th scope="col" class="number">
                      To nodes
                    </th>
                    <th scope="col" class="number">
                      With fee
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {data.settlement_statuses.map((group) => (
                    <tr key={group.settlement_status}>
                      <th scope="row">{group.settlement_status}</th>
                      <td class="number">{count(group.payout_count)}</td>
                      <td class="number">
                        <Wei wei={group.total_payout_wei} />
                      </td>
                      <td class="number">
                        <Wei wei={group.total_amount_wei} />
                      </td>
                    </tr>
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

/** Only what a browser may open without harm becomes a link. */
function explorerLink(base: string, hash: string): string | null {
  return /^https?:\/\//.test(base) && /^0x[0-9a-f]{64}$/i.test(hash) ? `${base.replace(/\/+$/, '')}/tx/${hash}` : null
}

function Batches() {
  const [list, again] = useLoad<{ readonly batches: readonly Batch[]; readonly settlement_configured?: boolean }>(
    '/v1/admin/payout-batches?limit=100',
    everyMs,
  )
  const [settlement] = useLoad<Settlement>('/v1/public/settlement?limit=1')
  const explorer = settlement.kind === 'ready' ? settlement.data.payout_settlement.explorer_url : ''
  return (
    <Part what="payout batches" loaded={list} again={again}>
      {({ batches, settlement_configured }) => (
        <section aria-labelledby="batches-title">
          <h2 id="batches-title">Payout batches</h2>
          {settlement_configured === false && (
            <p class="muted">No chain is configured: batches rest as they are, and nothing is paid out.</p>
          )}
          {batches.length === 0 ? (
            <Empty title="No batch yet">Pending payouts are put into one when their time or sum has come.</Empty>
          ) : (
            <Frame label="Payout batches, newest first">
              <table>
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

function BatchRow({ batch, explorer }: { batch: Batch; explorer: string }) {
  const { batch_id, submitted_tx_hash: hash } = batch
  const link = hash === null ? null : explorerLink(explorer, hash)
  return (
    <tr>
      <th scope="row">
        <a href={`#statecharts/payout-batch/${batch_id}`}>
          <Id id={batch_id} />
        </a>
      </th>
      <td>
        <Pill tone={batchTones[batch.status] ?? 'plain'} text={batch.status} />
      </td>
      <td class="number">{count(batch.payout_count)}</td>
      <td class="number">
        <Wei wei={batch.total_amount_wei} />
      </td>
      <td>
        {hash === null && nothing}
        {hash !== null && link === null && <Id id={hash} />}
        {hash !== null && link !== null && (
          <a href={link} target="_blank" rel="noreferrer noopener">
            <Id id={hash} />
            <span class="visually-hidden"> in the explorer, in a new tab</span>
          </a>
        )}
      </td>
      <td>
        {batch.held === true && <Pill tone="bad" text="held" />} {batch.last_error ?? (batch.held ? '' : nothing)}
      </td>
      <td>{shortTime(batch.created_at)}</td>
    </tr>
  )
}

function Balances() {
  const [list, again] = useLoad<{ readonly customers: readonly Account[] }>('/v1/admin/customers?limit=200', everyMs)
  return (
    <Part what="balances" loaded={list} again={again}>
      {({ customers }) => (
        <section aria-labelledby="balances-title">
          <h2 id="balances-title">Balances</h2>
          <Frame label="Balances of customers">
            <table>
              <thead>
                <tr>
                  <th scope="col">Customer</th>
                  <th scope="col">Account</th>
                  <th scope="col" class="number">
                    Balance
                  </th>
                  <th scope="col" class="number">
                    Reserved
                  </th>
                  <th scope="col" class="number">
                    Available
                  </th>
                </tr>
              </thead>
              <tbody>
                {customers.map((customer) => (
                  <tr key={customer.customer_id}>
                    <th scope="row">
                      {customer.display_name} <Id id={customer.customer_id} />
                    </th>
                    <td>{customer.account_status}</td>
                    <td class="number">
                      <Wei wei={customer.balance_wei} />
                    </td>
                    <td class="number">
                      <Wei wei={customer.reserved_wei} />
                    </td>
                    <td class="number">
                      <Wei wei={customer.available_wei} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Frame>
        </section>
      )}
    </Part>
  )
}
