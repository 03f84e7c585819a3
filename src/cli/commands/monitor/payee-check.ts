import { UsageFault } from '../../frame/failure.ts'
import type { MonitorCheck } from './findings.ts'

/** How many receipts one file may name. */
const receiptsMax = 100_000
export const payeesBytesMax = 16 * 1024 * 1024
const linePattern = /^(0x[0-9a-f]{64})[ \t]+(0x[0-9a-fA-F]{40})$/

/** `RECEIPT_HASH PAYEE`, one a line; empty lines and those that begin with # do not count. Throws `UsageFault`. */
export function readPayees(text: string): ReadonlyMap<string, string> {
  const payees = new Map<string, string>()
  for (const [at, raw] of text.split('\n').entries()) {
    const line = raw.trim()
    if (line === '' || line.startsWith('#')) continue
    const [, hash, payee] = linePattern.exec(line) ?? []
    if (hash === undefined || payee === undefined)
      throw new UsageFault(`Line ${at + 1} of the payees must be a receipt hash and an address`)
    if (payees.size >= receiptsMax) throw new UsageFault(`The payees name more than ${receiptsMax} receipts`)
    payees.set(hash, payee.toLowerCase())
  }
  return payees
}

/** Payouts against the payees that their owner expects: of a receipt that a node signed, the address that it stated. */
export function payeeCheck(payees: ReadonlyMap<string, string>): MonitorCheck {
  return {
    name: 'payees',
    leaf: ({ batchId, payoutId, payee }, report) => {
      const expected = payoutId === null ? undefined : payees.get(payoutId)
      if (expected === undefined || payoutId === null || expected === payee.toLowerCase()) return
      report('payee_differs', payoutId, `batch ${batchId} pays to another address than the one that you gave`)
    },
    state: () => null,
  }
}
