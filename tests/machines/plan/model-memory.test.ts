import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type MemoryHolder, roomFor } from '../../../src/machines/plan/model-memory.ts'

const holder = (id: string, more: Partial<MemoryHolder> = {}): MemoryHolder => ({
  id,
  memoryMb: { memory: 40 },
  group: null,
  pinned: false,
  holds: 'idle',
  lastUsedMs: 0,
  ...more,
})
const wanted = holder('wanted', { holds: 'away' })

test('§30: there is room while the sum stays within the budget', () => {
  expect(roomFor(wanted, [wanted, holder('a')], { memory: 80 })).toEqual({ kind: 'free' })
  expect(roomFor(wanted, [wanted, holder('a')], { memory: 79 })).toEqual({ kind: 'evict', ids: ['a'] })
})

test('§30: the least recently used without work goes first, and no more of them than are needed', () => {
  const all = [holder('a', { lastUsedMs: 3 }), holder('b', { lastUsedMs: 1 }), holder('c', { lastUsedMs: 2 })]
  expect(roomFor(wanted, all, { memory: 120 })).toEqual({ kind: 'evict', ids: ['b'] })
  expect(roomFor(wanted, all, { memory: 80 })).toEqual({ kind: 'evict', ids: ['b', 'c'] })
})

test('§30: one with work is never ended, and nobody gives way before it helps', () => {
  const all = [holder('a', { holds: 'working' }), holder('b')]
  expect(roomFor({ ...wanted, memoryMb: { memory: 80 } }, all, { memory: 80 })).toEqual({ kind: 'wait', busy: ['a'] })
  expect(roomFor(wanted, all, { memory: 80 })).toEqual({ kind: 'evict', ids: ['b'] })
})

test('§30: memory counts until the processes are gone', () => {
  expect(roomFor(wanted, [holder('a', { holds: 'leaving' })], { memory: 40 })).toEqual({ kind: 'wait', busy: [] })
})

test('§30: never two of one exclusive group, whatever memory is free', () => {
  const mine = { ...wanted, group: 'gpu0' }
  const rival = holder('a', { group: 'gpu0', lastUsedMs: 9 })
  const other = holder('b', { group: 'gpu1', lastUsedMs: 1 })
  expect(roomFor(mine, [rival, other], { memory: 1_000 })).toEqual({ kind: 'evict', ids: ['a'] })
  expect(roomFor(mine, [{ ...rival, holds: 'working' }, other], { memory: 1_000 })).toEqual({
    kind: 'wait',
    busy: ['a'],
  })
  expect(roomFor(mine, [{ ...rival, holds: 'leaving' }, other], { memory: 1_000 })).toEqual({ kind: 'wait', busy: [] })
})

test('§37: each device has its budget: who has nothing on the full one need not go', () => {
  const onCard = (id: string, more: Partial<MemoryHolder> = {}) =>
    holder(id, { memoryMb: { gpu0: 20, memory: 5 }, ...more })
  const all = [holder('a', { lastUsedMs: 1 }), onCard('b', { lastUsedMs: 9 })]
  const budgets = { memory: 100, gpu0: 24 }
  expect(roomFor(onCard('wanted', { holds: 'away' }), all, budgets)).toEqual({ kind: 'evict', ids: ['b'] })
  expect(roomFor(wanted, all, budgets)).toEqual({ kind: 'free' })
})

test('§37: a pinned model gives way to none, and its memory counts', () => {
  const all = [holder('a', { pinned: true, lastUsedMs: 1 }), holder('b', { lastUsedMs: 9 })]
  expect(roomFor(wanted, all, { memory: 80 })).toEqual({ kind: 'evict', ids: ['b'] })
  const busy = [holder('a', { pinned: true, holds: 'working' }), holder('b', { holds: 'working' })]
  expect(roomFor(wanted, busy, { memory: 80 })).toEqual({ kind: 'wait', busy: ['b'] })
})

test('§30: whoever is asked to give way makes enough room, for any set of servers', () => {
  const holders = fc.array(
    fc.record({
      memoryMb: fc.record(
        { memory: fc.integer({ min: 1, max: 100 }), gpu0: fc.integer({ min: 1, max: 100 }) },
        { requiredKeys: [] },
      ),
      pinned: fc.constant(false),
      group: fc.constantFrom(null, 'g', 'h'),
      holds: fc.constantFrom('away', 'idle', 'working', 'leaving'),
      lastUsedMs: fc.integer({ min: 0, max: 9 }),
    }),
    { maxLength: 8 },
  )
  fc.assert(
    fc.property(holders, fc.constantFrom(null, 'g'), (others, group) => {
      const all = others.map((other, at): MemoryHolder => ({ ...other, id: `m${at}` }))
      const budgetMb = { memory: 200, gpu0: 150 }
      const mine = { ...wanted, memoryMb: { memory: 40, gpu0: 30 }, group }
      const room = roomFor(mine, all, budgetMb)
      const gone = room.kind === 'evict' ? room.ids : room.kind === 'wait' ? room.busy : []
      const left = all.filter(({ id, holds }) => holds !== 'away' && holds !== 'leaving' && !gone.includes(id))
      expect(gone.every((id) => all.some((one) => one.id === id && one.holds !== 'away'))).toBe(true)
      if (room.kind === 'wait' && room.busy.length > 0) return
      for (const device of ['memory', 'gpu0'] as const) {
        const sum = left.reduce((mb, { memoryMb }) => mb + (memoryMb[device] ?? 0), mine.memoryMb[device])
        // What did not fit before is nobody's fault who comes later.
        expect(sum).toBeLessThanOrEqual(budgetMb[device])
      }
      expect(left.filter((one) => group !== null && one.group === group)).toEqual([])
    }),
  )
})
