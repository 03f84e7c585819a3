import { describe, expect, test } from 'bun:test'
import { createPrefixMap, keysOf, messagesHashedMax } from '../../../src/machines/rules/affinity.ts'

const hash = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)
const message = (role: string, content: unknown) => ({ role, content })
const keys = (messages: readonly unknown[], customerId = 'c', modelId = 'm') =>
  keysOf(customerId, modelId, messages, hash)

const system = message('system', 'be brief')
const first = message('user', 'hello')
const answer = message('assistant', 'hi')
const second = message('user', 'and now?')

describe('§8 prefix affinity: keys', () => {
  test('one key per prefix, longest first; a longer conversation keeps the keys of its beginning', () => {
    const short = keys([system, first])
    const long = keys([system, first, answer, second])
    expect(long).toHaveLength(4)
    expect(long.slice(2)).toEqual([...short])
  })

  test('customer, model, role and content all count', () => {
    const all = [
      keys([first]),
      keys([first], 'd'),
      keys([first], 'c', 'n'),
      keys([message('system', 'hello')]),
      keys([message('user', 'hello!')]),
    ]
    expect(new Set(all.map(([key]) => key)).size).toBe(all.length)
  })

  test('texts do not run into each other', () => {
    expect(keys([message('user', 'ab'), message('user', 'c')])[0]).not.toBe(
      keys([message('user', 'a'), message('user', 'bc')])[0],
    )
  })

  test('content in parts: text and images', () => {
    const parts = (text: string, url: string) =>
      keys([
        message('user', [
          { type: 'text', text },
          { type: 'image_url', image_url: { url } },
        ]),
      ])[0]
    expect(parts('a', 'x')).toBe(parts('a', 'x'))
    expect(parts('a', 'x')).not.toBe(parts('a', 'y'))
    expect(parts('a', 'x')).not.toBe(parts('b', 'x'))
  })

  test('of anything else than messages it makes keys too', () => {
    expect(keys([null, 7, message('assistant', null), message('tool', [3, null])])).toHaveLength(4)
    expect(keys([])).toEqual([])
  })

  test('at most 32 messages, and of a long text its length and both ends', () => {
    const many = Array.from({ length: 100 }, (_, at) => message('user', String(at)))
    expect(keys(many)).toHaveLength(messagesHashedMax)
    let hashed = 0
    keysOf('c', 'm', [message('user', 'x'.repeat(8 * 1024 * 1024))], (text, seed) => {
      hashed += text.length
      return hash(text, seed)
    })
    expect(hashed).toBeLessThan(10_000)
    const long = (end: string) => keys([message('user', 'x'.repeat(10_000) + end)])[0]
    expect(long('a')).not.toBe(long('b'))
  })
})

describe('§8 prefix affinity: map', () => {
  test('the next turn of a conversation finds the node of the last', () => {
    const map = createPrefixMap()
    map.record(keys([system, first]), 'node_a')
    expect(map.lookup(keys([system, first, answer, second]))).toBe('node_a')
    expect(map.lookup(keys([system, first], 'other customer'))).toBeNull()
  })

  test('a new conversation with the same system prompt finds the node that has it', () => {
    const map = createPrefixMap()
    map.record(keys([system, first, answer, second]), 'node_a')
    expect(map.lookup(keys([system, message('user', 'something else')]))).toBe('node_a')
  })

  test('the longest prefix wins', () => {
    const map = createPrefixMap()
    map.record(keys([system, first]), 'node_a')
    map.record(keys([system, second]), 'node_b')
    expect(map.lookup(keys([system, first, answer]))).toBe('node_a')
    expect(map.lookup(keys([system]))).toBe('node_b')
  })

  test('bounded; what was not used for long is forgotten, what is in use stays', () => {
    const map = createPrefixMap(8)
    map.record([1n], 'a')
    map.record([2n], 'b')
    for (let key = 10n; key < 40n; key++) {
      map.record([key], 'x')
      expect(map.lookup([1n])).toBe('a')
      expect(map.size).toBeLessThanOrEqual(8)
    }
    expect(map.lookup([2n])).toBeNull()
    expect(map.lookup([39n])).toBe('x')
  })

  test('nothing to record, nothing to find', () => {
    const map = createPrefixMap()
    map.record([], 'a')
    expect([map.size, map.lookup([])]).toEqual([0, null])
  })
})
