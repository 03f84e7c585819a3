import { hash } from 'node:crypto'
import { type LogPromise, type Promised, promiseText } from '../../protocol/log/promise.ts'

/** Where a promise stands in the tree of its batch. */
export type BatchPlace = NonNullable<LogPromise['batch']>

const leafHead = Buffer.of(0)
const nodeHead = Buffer.of(1)
const sha256 = (...parts: readonly Buffer[]): Buffer => hash('sha256', Buffer.concat(parts), 'buffer')

/**
 * The tree of RFC 9162 over some promises, at least one. Native hashes take a sixth of the time of `merkle-log.ts`, which runs in browsers,
 * and each hash is written as text once, though it is in many paths: together 2 µs a promise, against 13 to 18 of a signature.
 */
export function batchOf(promised: readonly Promised[]): {
  readonly root: Buffer
  readonly places: readonly BatchPlace[]
} {
  const size = promised.length
  const places = promised.map((_, index): BatchPlace => ({ index, size, proof: [] }))
  const rootOf = (from: number, to: number): Buffer => {
    const [only] = promised.slice(from, from + 1)
    if (only === undefined) throw new RangeError('a batch of no promises')
    if (to - from === 1) return sha256(leafHead, Buffer.from(promiseText(only)))
    const middle = from + 2 ** Math.ceil(Math.log2(to - from) - 1)
    const [left, right] = [rootOf(from, middle), rootOf(middle, to)]
    const [leftText, rightText] = [left.toString('base64'), right.toString('base64')]
    for (let at = from; at < to; at++) places[at]?.proof.push(at < middle ? rightText : leftText)
    return sha256(nodeHead, left, right)
  }
  return { root: rootOf(0, size), places }
}
