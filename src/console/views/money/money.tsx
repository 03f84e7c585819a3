import { useState } from 'preact/hooks'
import type { CountedKind } from '../../../protocol/money/kinds.ts'
import { enteringKinds, followingKinds, sumField, sumFigure } from '../../../protocol/money/moves.ts'
import type { Customer, CustomerList } from '../../../protocol/wire/admin/accounts.ts'
import type { BooksReport } from '../../../protocol/wire/money/log.ts'
import type { LedgerProof, TreasuryReport } from '../../../protocol/wire/money/money.ts'
import { Check } from '../../parts/check.tsx'
import { count } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { Figure, Id } from '../../parts/small.tsx'
import { Cut, Empty, Part } from '../../parts/states.tsx'
import { amountText, UnitChoice, Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'
import { mayAct, role } from '../../state/session.ts'
import { CostsPart } from './costs.tsx'
import { HeldReceipts } from './held-receipts.tsx'
import { Batches } from './payout-batches.tsx'

const everyMs = 30_000
const balancesMax = 1_000

/** The page does not ask for what a viewer may not read, because each refusal counts as a denied call in the audit. */
export function Money() {
  return (
    <>
      <div class="title-row">
        <h1>Money</h1>
        <UnitChoice />
        <p class="muted">Point at an amount to see the exact number of wei.</p>
      </div>
      {mayAct('operator') && (
        <>
          <CostsPart />
          <Books />
          <Payouts />
        </>
      )}
      <HeldReceipts />
      <Batches />
      {mayAct('operator') && <Balances />}
      {role.value === 'viewer' && (
        <Empty title="Not for this role">An operator or admin token shows the books, payouts and balances.</Empty>
      )}
    </>
  )
}

function Books() {
  const [proof, again] = useLoad<LedgerProof>('/v1/admin/ledger/proof', everyMs)
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
            <Sums kinds={enteringKinds} proof={data} />
            <Figure name="Balances" value={amountText(data.balances_wei)} />
            <Figure name="Reserved" value={amountText(data.reserved_wei)} />
            <Sums kinds={followingKinds} proof={data} />
            <Figure name="To nodes" value={amountText(data.payouts_wei)} />
            <Figure name="Fees" value={amountText(data.fees_wei)} />
          </dl>
          <Check<BooksReport> path="/v1/admin/ledger/check" what="Recompute the books row by row" say={booksSaid} />
        </section>
      )}
    </Part>
  )
}

const Sums = ({ kinds, proof }: { kinds: readonly CountedKind[]; proof: LedgerProof }) =>
  kinds.map((kind) => <Figure key={kind} name={sumFigure(kind)} value={amountText(proof[sumField(kind)])} />)

const booksSaid = ({ sound, receipts, faults }: BooksReport) => ({
  good: sound,
  text: sound
    ? `Every row of ${count(receipts)} receipts, the ledger and the public log agrees.`
    : `Not sound: ${faults.map(({ rule, subject }) => `${rule} ${subject}`).join(', ')}`,
})

/** Read when somebody asks for it: the audit counts it as a sensitive call, which is then a person's own. */
function Payouts() {
  const [open, setOpen] = useState(false)
  return open ? (
    <TreasuryPart />
  ) : (
    <p>
      <button type="button" onClick={() => setOpen(true)}>
        Show payouts by state
      </button>
    </p>
  )
}

function TreasuryPart() {
  const [report, again] = useLoad<TreasuryReport>('/v1/admin/billing/treasury-report')
  return (
    <Part what="the treasury report" loaded={report} again={again}>
      {(data) => (
        <section aria-labelledby="payouts-title">
          <h2 id="payouts-title">Payouts, last {data.window_days} days</h2>
          {data.settlement_statuses.length === 0 ? (
            <Empty title="No payout in this time">Paid work on other people’s nodes makes one.</Empty>
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
                      With the fee
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

function Balances() {
  const [list, again] = useLoad<CustomerList>(`/v1/admin/customers?limit=${balancesMax}`, everyMs)
  return (
    <Part what="balances" loaded={list} again={again}>
      {({ customers }) => (
        <section aria-labelledby="balances-title">
          <h2 id="balances-title">Balances</h2>
          {customers.length === 0 ? (
            <Empty title="No customer yet">
              One is made with <code>./penstock customers create</code>.
            </Empty>
          ) : (
            <>
              <LongTable
                label="Balances of customers"
                rows={customers}
                keyOf={({ customer_id: id }) => id}
                textOf={({ customer_id: id, display_name: name }) => `${name} ${id}`}
                columns={balanceColumns}
              />
              <Cut rows={customers.length} limit={balancesMax} what="the newest customers" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}

/** Wei are too many for a number's digits, which a sort does not need. */
const weiColumn = (title: string, weiOf: (customer: Customer) => string): Column<Customer> => ({
  title,
  number: true,
  by: (customer) => Number(weiOf(customer)),
  show: (customer) => <Wei wei={weiOf(customer)} />,
})

const balanceColumns: readonly Column<Customer>[] = [
  {
    title: 'Customer',
    by: ({ display_name: name }) => name,
    show: ({ customer_id: id, display_name: name }) => (
      <>
        <a href={`#customers/${id}`}>{name}</a> <Id id={id} />
      </>
    ),
  },
  { title: 'Account', by: ({ account_status: status }) => status, show: ({ account_status: status }) => status },
  weiColumn('Balance', ({ balance_wei: wei }) => wei),
  weiColumn('Reserved', ({ reserved_wei: wei }) => wei),
  weiColumn('Available', ({ available_wei: wei }) => wei),
]
