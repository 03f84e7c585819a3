import type { Database } from '../../db/client.ts'
import { readMarkedTokens } from '../../db/queries/accounts/accounts.ts'
import { type PricedReceipt, pricedReceipts } from '../../db/queries/log/charged-prices.ts'
import type { RowFault } from '../../machines/rules/books.ts'
import { roleTokenMark } from '../../secrets.ts'
import type { ReceiptMacs } from './receipt-macs.ts'

const priceRule = 'every price of a receipt bears the mark of the process that billed it'
const receiptsAtOnce = 1_000
const faultsMax = 100
/** Of `<prices>.<key>.<mark>`, and of `<key>.<time>.<mark>`. */
const keyOfPrice = ({ price }: PricedReceipt) => price.split('.').at(1)
const keyOfMac = ({ mac }: PricedReceipt) => mac?.split('.').at(0)

/** By a key that is not known here nothing can be said, unless another key has marked the receipt itself. */
function isForged(macs: ReceiptMacs, receipt: PricedReceipt): boolean {
  const verdict = macs.judgePrice(receipt.price, receipt.hash)
  return verdict === 'wrong' || (verdict === 'unknown' && keyOfPrice(receipt) !== keyOfMac(receipt))
}

/** At most 100. */
export async function checkPrices(tx: Database, macs: ReceiptMacs): Promise<readonly RowFault[]> {
  const faults: RowFault[] = []
  for await (const page of pricedReceipts(tx, receiptsAtOnce)) {
    for (const receipt of page) if (isForged(macs, receipt)) faults.push({ rule: priceRule, subject: receipt.hash })
    if (faults.length >= faultsMax) break
  }
  return faults.slice(0, faultsMax)
}

/**
 * Who has the database alone can mark no token. One without a mark is of a version before, where all of its role are: `reset-admin`
 * replaces all admin tokens, and the first start makes one of each.
 */
export async function checkTokens(tx: Database, peppers: readonly string[]): Promise<readonly RowFault[]> {
  const rule = 'every role token bears the mark of the gateway that made it'
  const tokens = await readMarkedTokens(tx)
  const marked = new Set(tokens.flatMap(({ role, mark }) => (mark === null ? [] : [role])))
  const isFaulty = ({ tokenHash, role, mark }: (typeof tokens)[number]) =>
    mark === null ? marked.has(role) : !peppers.some((pepper) => roleTokenMark(pepper, tokenHash, role) === mark)
  return tokens.filter(isFaulty).map(({ role }) => ({ rule, subject: `a token of the role ${role}` }))
}
