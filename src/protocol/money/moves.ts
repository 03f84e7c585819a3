import {
  type Account,
  type CountedKind,
  kindNames,
  kindOf,
  type LedgerKind,
  ledgerKinds,
  type SumName,
} from './kinds.ts'

/** What a customer's balance counts. */
export const balanceAccounts: readonly Account[] = ['customer', 'reserved']
/** What was paid for work. */
export const workAccounts: readonly Account[] = ['earnings', 'held', 'fees']

/** How often an entry's amount is added to what these accounts have together. */
export function changeOf(kind: LedgerKind, accounts: readonly Account[]): -1 | 0 | 1 {
  const { debits, credits } = kindOf(kind)
  const gives = accounts.some((account) => debits.includes(account))
  const takes = accounts.some((account) => credits.includes(account))
  if (gives === takes) return 0
  return takes ? 1 : -1
}

export const kindsThat = (change: -1 | 1, accounts: readonly Account[]): readonly LedgerKind[] =>
  kindNames.filter((kind) => changeOf(kind, accounts) === change)

const isCounted = (kind: LedgerKind): kind is CountedKind => kindOf(kind).sum !== null
export const countedKinds: readonly CountedKind[] = kindNames.filter(isCounted)

export type SumField = `${SumName}_wei`
const textOf = (kind: CountedKind): string => ledgerKinds[kind].sum.name.replaceAll('_', ' ')
export const sumField = (kind: CountedKind): SumField => `${ledgerKinds[kind].sum.name}_wei`
/** For a table: "Admin debits". */
export const sumTitle = (kind: CountedKind): string => textOf(kind).replace(/^./, (first) => first.toUpperCase())
export const sumFigure = (kind: CountedKind): string => ledgerKinds[kind].sum.figure

/** One member for each sum of these kinds. */
export const sumFields = <T>(kinds: readonly CountedKind[], make: (kind: CountedKind) => T) =>
  Object.fromEntries(kinds.map((kind) => [sumField(kind), make(kind)])) as Readonly<Record<SumField, T>>

const comesIn = (kind: CountedKind) => kindOf(kind).debits.includes('outside')
/** The books show first what came in, then what customers have, then these. */
export const enteringKinds = countedKinds.filter(comesIn)
export const followingKinds = countedKinds.filter((kind) => !comesIn(kind))

/** What came to these accounts is there, or has left them: "debits = payouts + fees + refunds". */
export function equation(accounts: readonly Account[], there: readonly string[]): string {
  const sums = (change: -1 | 1) => kindsThat(change, accounts).filter(isCounted).map(textOf)
  return `${sums(1).join(' + ')} = ${[...there, ...sums(-1)].join(' + ')}`
}
/** What is there by the entries of these accounts. */
export const leftOn = (accounts: readonly Account[], sums: Readonly<Record<CountedKind, bigint>>): bigint =>
  countedKinds.reduce((sum, kind) => sum + BigInt(changeOf(kind, accounts)) * sums[kind], 0n)
