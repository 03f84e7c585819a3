import { timingSafeEqual } from 'node:crypto'
import { hmacSha256, readSeed } from '../../secrets.ts'

/** One receipt, or the receipts of one group in their order. */
export interface MacSubject {
  /** `0x` and 64 hex digits; of a group the hex of all hashes, one behind the other. */
  readonly hashes: string
  /** Of a group one line for each, or one for all. */
  readonly customers: string
  readonly group: boolean
}

/**
 * What a MAC in the database is worth. `unknown`: there is none, or it is by a key that this process does not have, so that
 * another gateway may know it.
 */
export type MacVerdict = 'holds' | 'wrong' | 'unknown'

/** Marks receipts as made by a process that has the secrets: an INSERT cannot (§36). The key is not in the database. */
export interface ReceiptMacs {
  /** At the issue. */
  of(subject: MacSubject): string
  judge(mac: string | null, subject: MacSubject): MacVerdict
  /** The prices of a billed receipt with a mark of their own, so that gateways of versions before know the receipt's as they did. */
  priced(hash: string, prices: MarkedPrices): string
  judgePrice(price: string, hash: string): MacVerdict
}

/** Wei for a token. */
export interface MarkedPrices {
  readonly promptTokenWei: bigint
  readonly completionTokenWei: bigint
}

/** Names of what the keys are for. */
const [macKeyFor, keyIdFor] = ['svc-receipt-mac-key-v1', 'key_id']
const [rowHead, groupHead, priceHead] = ['svc-receipt-mac-v1', 'svc-receipt-group-mac-v1', 'svc-receipt-price-mac-v1']
const keyIdLength = 8
/** Characters of base64url: 132 bits. */
const macLength = 22
const form = new RegExp(`^([0-9a-f]{${keyIdLength}})\\.([0-9]{1,15})\\.([A-Za-z0-9_-]{${macLength}})$`)

/** `<prompt>:<completion>.<key>.<mark>`. */
const priceForm = new RegExp(`^([0-9]{1,78}:[0-9]{1,78})\\.([0-9a-f]{${keyIdLength}})\\.([A-Za-z0-9_-]{${macLength}})$`)

interface MacKey {
  readonly id: string
  /** Of a stored row, whose hash may be any text. */
  price(hash: string, prices: string): string
  /** The same mark, of a receipt that this process issues. `line`: a line feed and the prices. */
  newPrice(hash: string, line: string): string
  mac(ms: number | string, subject: MacSubject): string
}

const [hashBytes, blockBytes] = [32, 64]
/** Of a text that is marked without a hasher of its own. */
const textBytesMax = 512
/** Bytes of a mark: its characters, and a part of one. */
const macBytes = Math.ceil((macLength * 6) / 8)

/**
 * HMAC-SHA-256 (RFC 2104) of a head, a receipt's hash and a tail, all ASCII, as the characters of a mark. A hasher is an object outside the heap,
 * which the collector has to free; these marks make no hasher and copy nothing. Receipts one after the other mostly have the same tail.
 */
function hashMacs(key: Uint8Array, head: string): (hash: string, tail: string) => string {
  const inner = Buffer.alloc(blockBytes + textBytesMax, 0x36)
  const outer = Buffer.alloc(blockBytes + hashBytes, 0x5c)
  for (const [at, byte] of key.entries()) {
    inner[at] = byte ^ 0x36
    outer[at] = byte ^ 0x5c
  }
  const hashAt = blockBytes + inner.write(head, blockBytes, 'latin1')
  const innerHash = outer.subarray(blockBytes)
  const mac = Buffer.alloc(hashBytes)
  let [tailAt, lastTail, text] = [0, '', inner]
  return (hash, tail) => {
    const from = hashAt + hash.length
    if (from !== tailAt || tail !== lastTail) {
      text = inner.subarray(0, from + inner.write(tail, from, 'latin1'))
      tailAt = from
      lastTail = tail
    }
    inner.write(hash, hashAt, 'latin1')
    Bun.SHA256.hash(text, innerHash)
    Bun.SHA256.hash(outer, mac)
    return mac.toString('base64url', 0, macBytes).slice(0, macLength)
  }
}

function macKey(text: string): MacKey {
  const seed = readSeed(text)
  if (seed === null) throw new Error('A signing seed does not have 32 bytes')
  const key = hmacSha256(seed, macKeyFor)
  const id = hmacSha256(key, keyIdFor).toString('hex').slice(0, keyIdLength)
  const marked = (text: string) => hmacSha256(key, text).toString('base64url').slice(0, macLength)
  const newPrice = hashMacs(key, `${priceHead}\n`)
  return {
    id,
    price: (hash, prices) => marked(`${priceHead}\n${hash}\n${prices}`),
    newPrice,
    mac: (ms, { hashes, customers, group }) => marked(`${group ? groupHead : rowHead}\n${ms}\n${hashes}\n${customers}`),
  }
}

const same = (made: string, stored: string): MacVerdict =>
  timingSafeEqual(Buffer.from(made), Buffer.from(stored)) ? 'holds' : 'wrong'

/** `seeds`: SVC_LOG_KEY, newest first. */
export function createReceiptMacs(seeds: readonly string[], now: () => number = Date.now): ReceiptMacs {
  const keys = seeds.map(macKey)
  const [newest] = keys
  if (newest === undefined) throw new Error('The gateway has no key to mark its receipts with')
  const shownPrices = ({ promptTokenWei, completionTokenWei }: MarkedPrices) => {
    const text = `${promptTokenWei}:${completionTokenWei}`
    return { promptTokenWei, completionTokenWei, line: `\n${text}`, shown: `${text}.${newest.id}.` }
  }
  // Those of one model follow each other.
  let last = shownPrices({ promptTokenWei: 0n, completionTokenWei: 0n })
  return {
    of: (subject) => {
      const ms = now()
      return `${newest.id}.${ms}.${newest.mac(ms, subject)}`
    },
    judge: (mac, subject) => {
      const [, id, ms = '', stored = ''] = form.exec(mac ?? '') ?? []
      const key = keys.find((one) => one.id === id)
      if (key === undefined) return 'unknown'
      return same(key.mac(ms, subject), stored)
    },
    priced: (hash, prices) => {
      const { promptTokenWei, completionTokenWei } = prices
      if (promptTokenWei !== last.promptTokenWei || completionTokenWei !== last.completionTokenWei)
        last = shownPrices(prices)
      return last.shown + newest.newPrice(hash, last.line)
    },
    judgePrice: (price, hash) => {
      const [, prices = '', id, stored = ''] = priceForm.exec(price) ?? []
      const key = keys.find((one) => one.id === id)
      return key === undefined ? 'unknown' : same(key.price(hash, prices), stored)
    },
  }
}

export const receiptSubject = ({ hash, customerId }: { readonly hash: string; readonly customerId: string }) => ({
  hashes: hash,
  customers: customerId,
  group: false,
})

/** `hashes`: hex, without prefixes. */
export const groupSubject = (hashes: string, customerIds: readonly string[]): MacSubject => {
  const [first = ''] = customerIds
  const one = customerIds.every((id) => id === first)
  return { hashes, customers: one ? first : customerIds.join('\n'), group: true }
}
