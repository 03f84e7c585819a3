import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { LineStore } from '../../../src/actors/money/line-store.ts'

const textOf = (pieces: readonly Buffer[]) => Buffer.concat(pieces).toString()
const line = (number: number, length: number) => `${number}\t${'é😀'.repeat(length)}\n`

const move = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('add'), count: fc.nat({ max: 700 }), length: fc.nat({ max: 40 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('add'), count: fc.constant(2), length: fc.constant(100_000) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('send'), count: fc.nat({ max: 1_500 }), length: fc.constant(0) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('leave'), count: fc.nat({ max: 1_500 }), length: fc.constant(0) }),
  },
)

test('lines come out as they went in, in any pieces, and what is still being sent does not change', () => {
  fc.assert(
    fc.property(fc.array(move, { size: 'max', maxLength: 40 }), (moves) => {
      const store = new LineStore()
      const lines: string[] = []
      const sent: { readonly pieces: readonly Buffer[]; readonly text: string }[] = []
      let oldest = 0
      for (const { kind, count, length } of moves) {
        const last = Math.min(lines.length, oldest + count) - 1
        if (kind === 'add') {
          for (let made = 0; made < count; made++) {
            const text = line(lines.length, length)
            expect(store.add(text)).toBe(lines.length)
            lines.push(text)
          }
        } else if (last >= oldest && kind === 'send') {
          const pieces = store.bytes(oldest, last)
          sent.push({ pieces, text: lines.slice(oldest, last + 1).join('') })
        } else if (last >= oldest) {
          store.leave(last, sent.length > 0)
          oldest = last + 1
        }
      }
      for (const { pieces, text } of sent) expect(textOf(pieces)).toBe(text)
      if (oldest < lines.length) {
        expect(textOf(store.bytes(oldest, lines.length - 1))).toBe(lines.slice(oldest).join(''))
      }
    }),
    { numRuns: 60 },
  )
})

test('the memory of lines that have left is used again', () => {
  const store = new LineStore()
  const memoryOf = (number: number) => store.bytes(number, number)[0]?.buffer
  const numbers = Array.from({ length: 2_000 }, (_, at) => store.add(line(at, 1)))
  const first = memoryOf(0)
  store.leave(numbers.at(-500) ?? 0, false)
  const later = Array.from({ length: 600 }, (_, at) => store.add(line(at, 1)))
  expect(later.map(memoryOf)).toContain(first)
})
