import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { WaitingReceipts } from '../../db/queries/log/waiting-receipts.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { logEntryText } from '../../protocol/log/log-entry.ts'
import type { MacSubject } from './receipt-macs.ts'

/** A receipt, or a group of them, with the mark that it bears. */
export interface WrittenReceipts extends MacSubject, WaitingReceipts {
  /** Of the first receipt of a group; of one receipt its own. */
  readonly firstSeq: bigint
  readonly mac: string | null
}

/** `waits`: this gateway cannot judge it, and another one may, or this one later. */
export type GateVerdict = 'taken' | 'refused' | 'waits'

const text = Type.String()
const Rows = Type.Array(Type.Tuple([text, text, Type.Boolean(), text, text, Type.Union([text, Type.Null()])]))

/** What a query has told of some receipts (`ReceiptEntries.written`). */
export function readWritten(written: string): readonly WrittenReceipts[] {
  const rows = foreignJson(written)
  if (!Value.Check(Rows, rows)) throw new Error('receipts of another form')
  return rows.map(([first, last, group, hashes, customers, mac]) => ({
    firstSeq: BigInt(first),
    lastSeq: BigInt(last),
    group,
    hashes,
    customers,
    mac,
  }))
}

/** What an entry says before the hash of its receipt. */
export const receiptHead = logEntryText({ kind: 'receipt', hash: '' })
