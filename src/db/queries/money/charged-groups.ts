import type { Receipt } from '../../../protocol/receipts/receipt.ts'
import { isoMs } from '../../../time.ts'
import { type ArrayValue, arrayText, listText } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import type { MarkGroup } from './receipt-groups.ts'
import { factsOfText, type MarkedReceipt, receiptsIssuedFrom } from './receipts.ts'

/** The receipt of a charge with the facts that its group has as columns. */
export interface Grouped {
  readonly receipt: MarkedReceipt
  readonly facts: Receipt
}

/** What of a billed group of receipts is not the same in all of them, and what is: `leased_charges_write` has them as arguments. */
export interface ChargedGroup {
  /** The hashes of its receipts as hex, one behind the other. */
  readonly hashes: string
  /** The text of an array: of each column the value that all of them have, or NULL. */
  readonly shared: string
  /** Of each column a list or the text of an array; null: it is shared, or null in all. */
  readonly columns: readonly (string | null)[]
  readonly mac: string
}

const hexPrefix = 2

const issuedAfterMs = ({ issuedAt, completedAt }: Receipt): number | null => {
  if (issuedAt == null) return null
  return issuedAt === completedAt ? 0 : isoMs(issuedAt) - isoMs(completedAt)
}

/** In the order of `receipt_groups`. */
const columnsOfGroup: readonly ((one: Grouped) => ArrayValue)[] = [
  ({ receipt }) => receipt.customerId,
  ({ receipt }) => receipt.signature ?? null,
  ({ facts }) => facts.issuer,
  ({ facts }) => facts.requestId,
  ({ facts }) => facts.jobId,
  ({ facts }) => facts.kind,
  ({ facts }) => facts.nodeId,
  ({ facts }) => facts.nodeClass,
  ({ facts }) => facts.runtimeId,
  ({ facts }) => facts.runtimeKind,
  ({ facts }) => facts.modelId,
  ({ facts }) => facts.promptTokens,
  ({ facts }) => facts.completionTokens,
  ({ facts }) => isoMs(facts.startedAt),
  ({ facts }) => isoMs(facts.completedAt),
  ({ facts }) => issuedAfterMs(facts),
  ({ receipt }) => receipt.price ?? null,
]

/** What all of a column's values are. */
const isTexts = (values: readonly ArrayValue[]): values is readonly (string | null)[] =>
  values.every((value) => value === null || typeof value === 'string')
const columnText = (values: readonly ArrayValue[]) => (isTexts(values) ? listText(values) : `{${values.join()}}`)

export const groupColumnCount = columnsOfGroup.length

/** null: it has columns that few have, and is written as a row. */
export function groupedReceipt(receipt: MarkedReceipt): Grouped | null {
  if (receipt.nodeReceipt !== undefined || (receipt.status ?? 'accepted') !== 'accepted') return null
  const facts = receipt.facts ?? factsOfText(receipt.text)
  return facts.clientNonce == null ? { receipt, facts } : null
}

/** One group of all of these, marked as a whole. */
export function chargedGroup(all: readonly Grouped[], mark: MarkGroup): ChargedGroup {
  const shared: ArrayValue[] = []
  const columns: (string | null)[] = []
  const [head] = all
  for (const column of columnsOfGroup) {
    const first = head === undefined ? null : column(head)
    // Most columns are the same in all, and then no list is made.
    const one = all.every((each) => column(each) === first)
    shared.push(one && first !== null ? String(first) : null)
    columns.push(one ? null : columnText(all.map(column)))
  }
  const hashes = all.map(({ receipt }) => receipt.hash.slice(hexPrefix)).join('')
  const mac = mark(
    hashes,
    all.map(({ receipt }) => receipt.customerId),
  )
  return { hashes, shared: arrayText(shared), columns, mac }
}

/** From when the receipts of charges stand in groups: gateways of the version before read rows alone. */
export const chargesGroupedFrom = (db: Database): Promise<Date> => receiptsIssuedFrom(db, 'grouped-charges')
