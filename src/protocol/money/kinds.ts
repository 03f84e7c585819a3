/** Where money is. What a customer has is `customer` and `reserved` together. */
export type Account =
  /** The world outside of these books, from which operators take money in. */
  | 'outside'
  /** What a customer may spend. */
  | 'customer'
  /** What is set aside of it for work that runs. */
  | 'reserved'
  /** Nodes' shares. */
  | 'earnings'
  /** Shares whose receipt waits for an operator's decision. */
  | 'held'
  /** The operator's part. */
  | 'fees'

type Side = readonly [Account, ...Account[]]

interface Kind {
  readonly noun: string
  readonly about: string
  /** The account that gives, or those among which the amount is split. */
  readonly debits: Side
  readonly credits: Side
  readonly refersTo: readonly ('reservation' | 'receipt')[]
  /** Its sum in the books, and the console's word for it; null: it moves money within one balance. */
  readonly sum: { readonly name: string; readonly figure: string } | null
  /** The entry of the public log, and what it says beside id, customer, amount and time (§31); null: only its part of the ledger. */
  readonly log: {
    readonly entry: string
    readonly says: readonly ('reason' | 'receipt_hash')[]
    /** Versions before do not write this entry, so that the log may lack one whose part of the ledger it has. */
    readonly mayLack: boolean
  } | null
  /** The action whose approval event each entry has; null: no operator decides. */
  readonly action: string | null
  /** The rules of the books that are this kind's own; which others it falls under follows from its columns. */
  readonly rules: readonly string[]
}

/**
 * The kinds of ledger entries (§13). Each moves its amount from one side to the other, so that all accounts together are
 * always zero. Wire, database, proof of the books, public log, vectors, console and commands follow from this table.
 */
export const ledgerKinds = {
  admin_credit: {
    noun: 'credit',
    about: 'An operator credits a customer',
    debits: ['outside'],
    credits: ['customer'],
    refersTo: [],
    sum: { name: 'credits', figure: 'Credits' },
    log: { entry: 'credit', says: ['reason'], mayLack: false },
    action: 'customer.credit.create',
    rules: [],
  },
  reserve: {
    noun: 'reserve',
    about: 'A quote is set aside before the work',
    debits: ['customer'],
    credits: ['reserved'],
    refersTo: ['reservation'],
    sum: null,
    log: null,
    action: null,
    rules: [],
  },
  release: {
    noun: 'release',
    about: 'What the work did not cost is free again',
    debits: ['reserved'],
    credits: ['customer'],
    refersTo: ['reservation'],
    sum: null,
    log: null,
    action: null,
    rules: [],
  },
  debit: {
    noun: 'debit',
    about: 'The customer pays for the work',
    debits: ['reserved'],
    credits: ['earnings', 'held', 'fees'],
    refersTo: ['reservation', 'receipt'],
    sum: { name: 'debits', figure: 'Debits' },
    log: null,
    action: null,
    rules: [
      'every debit has its billed receipt',
      'every billed receipt has its debit',
      'every debit is its payout, its fee and its refund',
      'every payout and fee has its debit',
    ],
  },
  refund: {
    noun: 'refund',
    about: 'An operator rejects a receipt, and the customer has its debit back',
    debits: ['held', 'fees'],
    credits: ['customer'],
    refersTo: ['reservation', 'receipt'],
    sum: { name: 'refunds', figure: 'Given back' },
    log: { entry: 'refund', says: ['receipt_hash'], mayLack: true },
    action: 'receipt.reject',
    rules: ['every refund is the debit of a rejected receipt', 'every rejected receipt was given back'],
  },
  admin_debit: {
    noun: 'admin debit',
    about: 'An operator takes credit back from a customer',
    debits: ['customer'],
    credits: ['outside'],
    refersTo: [],
    sum: { name: 'admin_debits', figure: 'Taken back' },
    log: { entry: 'admin_debit', says: ['reason'], mayLack: true },
    action: 'customer.debit.create',
    rules: [],
  },
} as const satisfies Readonly<Record<string, Kind>>

type Table = typeof ledgerKinds
export type LedgerKind = keyof Table
type With<Column extends keyof Kind, Value> = {
  [K in LedgerKind]: Table[K][Column] extends Value ? K : never
}[LedgerKind]

/** Kinds that change a balance. */
export type CountedKind = Exclude<LedgerKind, With<'sum', null>>
/** Kinds that have an entry of their own in the public log. */
export type LoggedKind = Exclude<LedgerKind, With<'log', null>>
/** Kinds whose entries an operator decided on. */
export type ApprovedKind = Exclude<LedgerKind, With<'action', null>>
/** Kinds that an operator makes of a customer's balance alone. */
export type OperatorKind = ApprovedKind & With<'refersTo', readonly []>

export type SumName = NonNullable<Table[CountedKind]['sum']>['name']
export type LoggedName = NonNullable<Table[LoggedKind]['log']>['entry']
export type ApprovalRule = `every ${Table[ApprovedKind]['noun']} has its approval event`
export type LoggedRule = `every ${Table[LoggedKind]['noun']} is as the log holds it`
export type OwnRule = Table[LedgerKind]['rules'][number]

export const kindNames = Object.keys(ledgerKinds) as readonly LedgerKind[] as readonly [LedgerKind, ...LedgerKind[]]
export const kindOf = (name: LedgerKind): Kind => ledgerKinds[name]

const isApproved = (kind: LedgerKind): kind is ApprovedKind => kindOf(kind).action !== null
export const approvedKinds: readonly ApprovedKind[] = kindNames.filter(isApproved)
export const approvalRule = (kind: ApprovedKind): ApprovalRule =>
  `every ${ledgerKinds[kind].noun} has its approval event`
export const loggedRule = (kind: LoggedKind): LoggedRule => `every ${ledgerKinds[kind].noun} is as the log holds it`
