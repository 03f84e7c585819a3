import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { foreignJson } from '../../../src/protocol/json/foreign-json.ts'
import {
  arrayItemsMax,
  commasInAllMax,
  containersMax,
  jsonDepthMax,
  membersInAllMax,
  objectMembersMax,
  repeatedKey,
  scanJson,
} from '../../../src/protocol/json/json-scan.ts'

const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const objects = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
const object = (members: number) => `{${Array.from({ length: members }, (_, at) => `"k${at}":0`).join(',')}}`
const array = (items: number) => `[${Array(items).fill(0).join(',')}]`
const fits = (text: string) => typeof scanJson(text) === 'number'

/** Written without any of the shortcuts of the product. */
function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const own = Array.isArray(value) ? 0 : Object.keys(value).length
  return Object.values(value).reduce((sum: number, item) => sum + membersOf(item), own)
}

describe('§27: the bounds, to the very item', () => {
  test.each([
    ['lists in lists', lists, jsonDepthMax],
    ['objects in objects', objects, jsonDepthMax],
    ['members', object, objectMembersMax],
    ['items', array, arrayItemsMax],
  ] as const)('%s', (_name, made, most) => {
    expect([fits(made(most)), fits(made(most + 1))]).toEqual([true, false])
    expect(foreignJson(made(most))).toEqual(JSON.parse(made(most)))
    expect(foreignJson(made(most + 1))).toBeUndefined()
    expect(foreignJson(`{"choices":[${made(most + 1)}]}`)).toBeUndefined()
  })

  test('neighbours count each for itself, also after what stood inside them', () => {
    const wide = array(arrayItemsMax - 1)
    expect(fits(`[${wide},${wide},${object(objectMembersMax)},${wide}]`)).toBe(true)
    expect(fits(`[${array(arrayItemsMax - 2).slice(1, -1)},${wide},${object(3)}]`)).toBe(true)
    expect(fits(`[${array(arrayItemsMax - 2).slice(1, -1)},${wide},${object(3)},0,0]`)).toBe(false)
    expect(fits(`[${`${lists(jsonDepthMax - 1)},`.repeat(9)}1]`)).toBe(true)
  })

  test('all together: members and containers', () => {
    const many = (count: number, one: string) =>
      `[${Array(Math.ceil(count / 1_000))
        .fill(`[${Array(1_000).fill(one).join(',')}]`)
        .join(',')}]`
    expect(fits(many(membersInAllMax, '{"a":1}'))).toBe(false)
    expect(fits(many(containersMax, '[]'))).toBe(false)
    expect(fits(many(containersMax - 1_000, '[]'))).toBe(true)
    expect(fits(many(containersMax, '1'))).toBe(true)
  })

  test('all together: commas between items', () => {
    const lists = commasInAllMax / arrayItemsMax
    const almost = Array(lists).fill(array(arrayItemsMax)).join(',')
    expect(fits(`[${almost},0]`)).toBe(true)
    expect(fits(`[${almost},0,0]`)).toBe(false)
  })

  test('what stands in a string is text', () => {
    const text = `${lists(500)}${'{'.repeat(500)}","${'\\'.repeat(7)}"`
    expect(fits(JSON.stringify({ text }))).toBe(true)
    expect(foreignJson(JSON.stringify([text, { text }]))).toEqual([text, { text }])
  })
})

test('any JSON is read as by the parser, its members are counted, and any other text is no JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), fc.nat(12), (value, spaces) => {
      const text = JSON.stringify(value, null, spaces)
      expect(scanJson(text)).toBe(membersOf(JSON.parse(text)))
      // The short text is not scanned, the long one is.
      expect([foreignJson(text), foreignJson(text + ' '.repeat(300))]).toEqual([JSON.parse(text), JSON.parse(text)])
      expect(repeatedKey(text)).toBeNull()
    }),
  )
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('{', '}', '[', ']', '"', '\\', ',', ':', '1', 'a', ' '), { maxLength: 400 }),
      (parts) => {
        const text = parts.join('')
        let parsed: unknown
        try {
          parsed = JSON.parse(text)
        } catch {}
        expect(foreignJson(text)).toEqual(parsed)
      },
    ),
  )
})

describe('a key that comes twice', () => {
  test.each([
    ['{"a":1,"a":2}', 'a'],
    ['{"a":1,"\\u0061":2}', 'a'],
    ['[{"b":{"c":[{"d" : 1, "e":2,"d"\n:3}]}}]', 'd'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"":1,"":2}', ''],
    ['{"a":"a","b":["a","a"],"c":{"a":1}}', null],
    ['[{"a":1},{"a":1}]', null],
    ['{"a":"\\"a\\":1","b":1}', null],
  ] as const)('%s', (text, key) => {
    expect(repeatedKey(text)).toBe(key)
    expect(scanJson(text) !== membersOf(JSON.parse(text))).toBe(key !== null)
  })
})
