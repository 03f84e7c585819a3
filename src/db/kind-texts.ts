import type { LedgerKind } from '../protocol/money/kinds.ts'

/**
 * Kinds as SQL writes them. The planner takes a partial index for a text in the statement, and not for a parameter; and a
 * kind without its row in the table does not compile.
 */
export const kindText = (kind: LedgerKind): string => `'${kind}'`
/** In brackets, at least one. */
export const kindTexts = (kinds: readonly LedgerKind[]): string => `(${kinds.map(kindText).join(', ')})`
