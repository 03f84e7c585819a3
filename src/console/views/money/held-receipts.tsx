import type { HeldReceipt, HeldReceiptList } from '../../../protocol/wire/money/receipt.ts'
import { ActButtons } from '../../actions/act-button.tsx'
import { count, nothing, shortTime } from '../../parts/format.ts'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { Id } from '../../parts/small.tsx'
import { Cut, Part } from '../../parts/states.tsx'
import { Wei } from '../../parts/wei.tsx'
import { useLoad } from '../../state/load.ts'
import { useNodeNames } from '../../state/node-names.ts'
import { mayAct } from '../../state/session.ts'

const everyMs = 10_000
const receiptsMax = 1_000

/** What waits for an admin: a node has claimed more tokens than it can have produced. */
export function HeldReceipts() {
  const [list, again] = useLoad<HeldReceiptList>(`/v1/admin/held-receipts?limit=${receiptsMax}`, everyMs)
  const names = useNodeNames()
  return (
    <Part what="the receipts on hold" loaded={list} again={again}>
      {({ receipts }) => (
        <section aria-labelledby="held-title">
          <h2 id="held-title">Receipts on hold</h2>
          {receipts.length === 0 ? (
            <p class="muted">None. A receipt is held when its node claims more tokens than it can have produced.</p>
          ) : (
            <>
              <p class="muted">
                Their nodes claimed more tokens than they can have produced. Release one to pay its node, or reject it
                to give the customer the debit back.
              </p>
              <LongTable
                label="Receipts on hold, newest first"
                rows={receipts}
                keyOf={({ receipt_hash: hash }) => hash}
                textOf={(receipt) => textOf(receipt, names)}
                columns={columnsOf(names)}
                actions={(receipt) => (
                  <ActButtons
                    kind="receipt"
                    row={{ ...receipt, status: 'held' }}
                    on={`the receipt of ${receipt.request_id}`}
                  />
                )}
              />
              <Cut rows={receipts.length} limit={receiptsMax} what="the newest receipts on hold" />
            </>
          )}
        </section>
      )}
    </Part>
  )
}

type Names = ReadonlyMap<string, string>

const textOf = ({ receipt_hash, request_id, node_id, model_id, customer_id }: HeldReceipt, names: Names) =>
  [receipt_hash, request_id, node_id, names.get(node_id), model_id, customer_id].join(' ')

const columnsOf = (names: Names): readonly Column<HeldReceipt>[] => [
  {
    title: 'Request',
    show: ({ request_id: id }) => (
      <a href={`#requests/${id}`}>
        <Id id={id} />
      </a>
    ),
  },
  {
    title: 'Node',
    by: ({ node_id: id }) => names.get(id) ?? id,
    show: ({ node_id: id }) => names.get(id) ?? <Id id={id} />,
  },
  { title: 'Model', by: ({ model_id: model }) => model, show: ({ model_id: model }) => model },
  ...(mayAct('operator')
    ? [
        {
          title: 'Customer',
          by: ({ customer_id: id }: HeldReceipt) => id,
          show: ({ customer_id: id }: HeldReceipt) =>
            id === null ? (
              nothing
            ) : (
              <a href={`#customers/${id}`}>
                <Id id={id} />
              </a>
            ),
        },
      ]
    : []),
  {
    title: 'Tokens in',
    number: true,
    by: ({ prompt_tokens: tokens }) => tokens,
    show: ({ prompt_tokens: tokens }) => count(tokens),
  },
  {
    title: 'Tokens out',
    number: true,
    by: ({ completion_tokens: tokens }) => tokens,
    show: ({ completion_tokens: tokens }) => count(tokens),
  },
  {
    title: 'Paid',
    number: true,
    by: ({ debit_wei: wei }) => Number(wei),
    show: ({ debit_wei: wei }) => (wei === null ? nothing : <Wei wei={wei} />),
  },
  { title: 'Since', by: ({ held_since: at }) => at, show: ({ held_since: at }) => shortTime(at) },
]
