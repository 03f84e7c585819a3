import { expect, test } from 'bun:test'
import { DurableCounts } from '../../../src/actors/console/durable-counts.ts'

/** Rows and what is at work on them, as a gateway has them; `reading`: what to wait for before a reading ends. */
function rowsOf(rows: Map<string, string>) {
  const atWork = new Map<string, string>()
  let reading: Promise<void> = Promise.resolve()
  const count = async (except: readonly string[]) => {
    await reading
    const counts: Record<string, number> = {}
    for (const [id, status] of rows) {
      if (except.includes(id) || status === 'completed') continue
      counts[status] = (counts[status] ?? 0) + 1
    }
    return counts
  }
  const counts = new DurableCounts({ ended: ['completed'], count }, () => atWork)
  return {
    counts,
    atWork,
    live: () => Object.fromEntries(counts.live()),
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      reading = promise
      return resolve
    },
  }
}

test('§23: what works is counted by its chart, what rests by its row, nothing twice', async () => {
  const { counts, atWork, live } = rowsOf(
    new Map([
      ['a', 'running'],
      ['b', 'running'],
      ['c', 'queued'],
    ]),
  )
  atWork.set('a', 'attending')
  await counts.read()
  expect(live()).toEqual({ attending: 1, running: 1, queued: 1 })
})

test('§23: between two readings what came to rest stays where it rested, and what ended is gone', async () => {
  const rows = new Map([
    ['a', 'running'],
    ['b', 'running'],
  ])
  const { counts, atWork, live } = rowsOf(rows)
  atWork.set('a', 'attending').set('b', 'attending')
  await counts.read()
  for (const [id, status] of [
    ['a', 'queued'],
    ['b', 'completed'],
  ] as const) {
    rows.set(id, status)
    atWork.delete(id)
    counts.moved(id, status)
  }
  expect(live()).toEqual({ queued: 1 })
  await counts.read()
  expect(live()).toEqual({ queued: 1 })
})

test('§23: what begins or rests while the rows are read is counted once', async () => {
  const rows = new Map([
    ['a', 'running'],
    ['b', 'queued'],
  ])
  const { counts, atWork, live, hold } = rowsOf(rows)
  atWork.set('a', 'attending')
  const end = hold()
  const read = counts.read()
  expect(counts.reading).toBe(true)
  atWork.delete('a')
  rows.set('a', 'queued')
  counts.moved('a', 'queued')
  atWork.set('b', 'submitting')
  rows.set('b', 'dispatched')
  counts.moved('b', 'submitting')
  end()
  await read
  expect(live()).toEqual({ queued: 1, dispatched: 1 })
  await counts.read()
  expect(live()).toEqual({ queued: 1, submitting: 1 })
})
