import type { Sql } from 'postgres'
import { idList, listText, numbersText } from '../../arrays.ts'
import { type ChargedGroup, chargedGroup, type Grouped, groupColumnCount, groupedReceipt } from './charged-groups.ts'
import type { LeasedReserve } from './leases.ts'
import { inOrder, type SettleRow } from './ledger.ts'
import type { MarkGroup } from './receipt-groups.ts'
import { type MarkedReceipt, receiptColumns } from './receipts.ts'

/** What is reserved under a lease. */
export interface ReservedUnder extends LeasedReserve {
  readonly leaseId: string
  readonly customerId: string
  /** When it was reserved, Unix ms. */
  readonly reservedAtMs: number
}

/** A charge under a lease with its receipt. It is never held. */
export interface LeasedCharge {
  readonly reservation: ReservedUnder
  readonly row: SettleRow
  readonly receipt: MarkedReceipt
  /** The ids of the groups in which it was sent: where its answer was lost, it is in one of them or not charged. Each once. */
  readonly sentIn: string[]
}

export interface LeasedCall {
  /** Larger than that of every call before, of this process. */
  readonly number: bigint
  readonly ttlMs: number
  /** The mark of a group of receipts; null: each is a row, because a gateway of the version before reads them. */
  readonly mark: MarkGroup | null
}

/** `again`: not charged, because others of the call stood in its way. */
export type LeasedOutcome = 'settled' | 'unknown' | 'again'

/** Of ASCII. */
const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
const orderOf = ({ reservation: { customerId, leaseId } }: LeasedCharge) => `${customerId} ${leaseId}`

/** The places of the charges in the order of their customers, and of these in that of their leases; null: they have one lease. */
function orderedPlaces(charges: readonly LeasedCharge[]): readonly number[] | null {
  const leaseId = charges[0]?.reservation.leaseId
  if (charges.every(({ reservation }) => reservation.leaseId === leaseId)) return null
  const keys = charges.map(orderOf)
  return charges.map((_, at) => at).sort((a, b) => compare(keys[a] ?? '', keys[b] ?? ''))
}

/** The arrays of a call, filled charge by charge. */
class CallColumns {
  // Of each lease.
  readonly leases: string[] = []
  readonly customers: string[] = []
  readonly counts: number[] = []
  readonly chargedSums: bigint[] = []
  readonly shareSums: bigint[] = []
  readonly feeSums: bigint[] = []
  // Of each charge.
  readonly ids: string[] = []
  readonly reservedAtMs: number[] = []
  readonly charged: bigint[] = []
  readonly shares: bigint[] = []
  readonly fees: bigint[] = []
  readonly released: bigint[] = []
  readonly nodes: (string | null)[] = []
  readonly owners: (string | null)[] = []
  readonly kinds: (string | null)[] = []
  readonly reserves: string[] = []
  readonly debits: string[] = []
  readonly releases: (string | null)[] = []
  readonly payouts: (string | null)[] = []
  readonly feeEntries: (string | null)[] = []
  readonly receipts: MarkedReceipt[] = []
  hashes = ''
  /** All groups in which any was sent before. */
  readonly sent = new Set<string>()
  private readonly groupIds = new Map<string, string>()

  /** In the order of `orderedPlaces`. */
  add({ reservation, row, receipt, sentIn }: LeasedCharge): void {
    const { leaseId, amountWei: reservedWei } = reservation
    const { chargedWei, shareWei, feeWei } = row
    if (this.leases.at(-1) !== leaseId) this.begin(reservation, row)
    const last = this.leases.length - 1
    this.counts[last] = (this.counts[last] ?? 0) + 1
    this.chargedSums[last] = (this.chargedSums[last] ?? 0n) + chargedWei
    this.shareSums[last] = (this.shareSums[last] ?? 0n) + shareWei
    this.feeSums[last] = (this.feeSums[last] ?? 0n) + feeWei
    this.ids.push(row.id)
    this.reservedAtMs.push(reservation.reservedAtMs)
    this.charged.push(chargedWei)
    this.shares.push(shareWei)
    this.fees.push(feeWei)
    this.released.push(reservedWei - chargedWei)
    this.nodes.push(row.node)
    this.owners.push(row.owner)
    this.kinds.push(row.kind)
    this.reserves.push(reservation.entry)
    this.debits.push(row.debit)
    this.releases.push(reservedWei > chargedWei ? row.release : null)
    this.payouts.push(shareWei > 0n ? row.payout : null)
    this.feeEntries.push(feeWei > 0n ? row.fee : null)
    this.receipts.push(receipt)
    this.hashes += receipt.hash.slice(2)
    for (const group of sentIn) this.sent.add(group)
    const group = this.groupIds.get(leaseId) ?? row.debit
    // While the database is away, the same ones are sent together again and again.
    if (!sentIn.includes(group)) sentIn.push(group)
  }

  private begin({ leaseId, customerId }: ReservedUnder, { debit }: SettleRow): void {
    this.leases.push(leaseId)
    this.customers.push(customerId)
    // A group has the id of its first charge.
    this.groupIds.set(leaseId, debit)
  }

  /** All are of one node that worked for one owner, as usual. */
  private get ofOneNode(): boolean {
    const { nodes, owners } = this
    return nodes.every((node) => node === nodes[0]) && owners.every((owner) => owner === owners[0])
  }

  /** Its nodes, and for whom they worked: one of each for all charges, or for each charge one. */
  get worked(): { readonly nodes: string; readonly owners: string } {
    const { nodes, owners } = this
    if (!this.ofOneNode) return { nodes: listText(nodes), owners: listText(owners) }
    return { nodes: listText(nodes.slice(0, 1)), owners: listText(owners.slice(0, 1)) }
  }

  /** In the order of the function's. */
  arguments({ number, ttlMs }: LeasedCall, nodes: string): readonly string[] {
    return [
      number.toString(),
      idList([...this.sent]),
      idList(this.leases),
      idList(this.customers),
      numbersText(this.counts),
      numbersText(this.chargedSums),
      numbersText(this.shareSums),
      numbersText(this.feeSums),
      ttlMs.toString(),
      idList(this.ids),
      numbersText(this.reservedAtMs),
      numbersText(this.charged),
      numbersText(this.shares),
      numbersText(this.fees),
      numbersText(this.released),
      `\\x${this.hashes}`,
      nodes,
      idList(this.kinds),
      idList(this.reserves),
      idList(this.debits),
      idList(this.releases),
      idList(this.payouts),
      idList(this.feeEntries),
    ]
  }
}

/** Of the arguments, in the order of the function's: `list` and `column` are texts that `list_of` takes apart, the second within one array. */
const types = [
  ...'bigint list list list int[] numeric[] numeric[] numeric[] bigint list bigint[]'.split(' '),
  ...'numeric[] numeric[] numeric[] numeric[] bytea list list list list list list list'.split(' '),
  ...['json', 'bytea', 'text[]', ...Array.from({ length: groupColumnCount }, () => 'column'), 'text', 'list'],
]

/** All arguments are texts: making the statement anew for each call, as the query builder does, took 4 µs a charge of 64. */
const statement = (() => {
  const values = types.map((type, at) => {
    const text = `$${at + 1}::text`
    if (type === 'list') return `list_of(${text})`
    return type === 'column' ? text : `${text}::${type}`
  })
  const [from, to] = [types.indexOf('column'), types.lastIndexOf('column') + 1]
  const columns = `array[${values.slice(from, to).join(', ')}]`
  const all = [...values.slice(0, from), columns, ...values.slice(to)]
  return `select place, outcome from leased_charges_write(${all.join(', ')})`
})()

const noColumns: readonly null[] = Array.from({ length: groupColumnCount }, () => null)

/** What becomes of the receipts, as arguments. */
function receiptArguments(receipts: readonly MarkedReceipt[], mark: MarkGroup | null): readonly (string | null)[] {
  const grouped: Grouped[] = []
  const alone: MarkedReceipt[] = []
  for (const receipt of receipts) {
    const one = mark === null ? null : groupedReceipt(receipt)
    if (one === null) alone.push(receipt)
    else grouped.push(one)
  }
  const rows = alone.length === 0 ? null : JSON.stringify(receiptColumns(alone))
  if (mark === null || grouped.length === 0) return [rows, '', null, ...noColumns, null]
  const { hashes, shared, columns, mac }: ChargedGroup = chargedGroup(grouped, mark)
  return [rows, alone.length === 0 ? null : `\\x${hashes}`, shared, ...columns, mac]
}

/**
 * One statement and one commit for all charges with their receipts: all of them are charged, or none. Ids must differ. Outcomes are in
 * the order of the charges.
 */
export async function settleLeased(
  client: Pick<Sql, 'unsafe'>,
  charges: readonly LeasedCharge[],
  call: LeasedCall,
): Promise<readonly LeasedOutcome[]> {
  const places = orderedPlaces(charges)
  const columns = new CallColumns()
  if (places === null) for (const charge of charges) columns.add(charge)
  else
    for (const at of places) {
      const charge = charges[at]
      if (charge !== undefined) columns.add(charge)
    }
  const { nodes, owners } = columns.worked
  const values = [...columns.arguments(call, nodes), ...receiptArguments(columns.receipts, call.mark), owners]
  const answer = await client.unsafe(statement, values, { prepare: true })
  const ordered = inOrder<LeasedOutcome>(charges.length, 'settled', answer)
  if (places === null) return ordered
  const outcomes = new Array<LeasedOutcome>(charges.length)
  for (const [place, at] of places.entries()) outcomes[at] = ordered[place] ?? 'unknown'
  return outcomes
}
