import { expect, test } from 'bun:test'
import { createHmac, hash } from 'node:crypto'
import { createReceiptMacs } from '../../../src/actors/log/receipt-macs.ts'

const seed = '42'.repeat(32)
const receipt = `0x${'ab'.repeat(32)}`

test('§36: the mark of a price is the HMAC that every version before has made, up to the largest prices there are', () => {
  const macs = createReceiptMacs([seed])
  const key = createHmac('sha256', Buffer.from(seed, 'hex')).update('svc-receipt-mac-key-v1').digest()
  const id = createHmac('sha256', key).update('key_id').digest('hex').slice(0, 8)
  const largest = 2n ** 256n - 1n
  for (const [promptTokenWei, completionTokenWei] of [
    [0n, 1n],
    [17n, 1_003n],
    [largest, largest],
  ] as const) {
    const prices = `${promptTokenWei}:${completionTokenWei}`
    const mark = createHmac('sha256', key).update(`svc-receipt-price-mac-v1\n${receipt}\n${prices}`).digest('base64url')
    const price = macs.priced(receipt, { promptTokenWei, completionTokenWei })
    expect(price).toBe(`${prices}.${id}.${mark.slice(0, 22)}`)
    expect(macs.judgePrice(price, receipt)).toBe('holds')
    expect(macs.judgePrice(price, `0x${hash('sha256', receipt)}`)).toBe('wrong')
  }
})

test('§36: marks of prices are the same in whatever order receipts and prices come', () => {
  const macs = createReceiptMacs([seed])
  const receipts = ['ab', 'cd'].map((byte) => `0x${byte.repeat(32)}`)
  const prices = [
    { promptTokenWei: 17n, completionTokenWei: 1_003n },
    { promptTokenWei: 171n, completionTokenWei: 3n },
    { promptTokenWei: 0n, completionTokenWei: 0n },
  ]
  for (const price of [...prices, ...prices.toReversed(), ...prices]) {
    for (const hash of receipts) {
      const mark = macs.priced(hash, price)
      expect(mark).toBe(createReceiptMacs([seed]).priced(hash, price))
      expect(macs.judgePrice(mark, hash)).toBe('holds')
    }
  }
})
