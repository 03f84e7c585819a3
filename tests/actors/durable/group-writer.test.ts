import { expect, test } from 'bun:test'
import { GroupWriter } from '../../../src/actors/durable/group-writer.ts'
import { createLog } from '../../../src/log.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const gatherMs = 50

/** A writer on a clock of its own; the inserts with these numbers fail. */
function virtualWriter(fails: readonly number[], queueMax = 1_000) {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(...text.trim().split('\n')))
  const inserts: (readonly [atMs: number, rows: readonly number[]])[] = []
  const insert = async (rows: readonly number[]) => {
    if (fails.includes(inserts.push([clock.now(), rows]))) throw new Error('away')
  }
  const writer = new GroupWriter<number>({ name: 'rows', log, insert, gatherMs, queueMax, clock })
  const logged = () => {
    log.flush()
    return lines.map((line) => JSON.parse(line)).map(({ ts: _, ...line }) => line)
  }
  return { clock, writer, inserts, logged }
}

test('rows of one wait are one group; the wait begins with the first', async () => {
  const { clock, writer, inserts } = virtualWriter([])
  writer.write(1)
  await clock.pass(gatherMs - 1)
  writer.write(2)
  await clock.pass(gatherMs)
  writer.write(3)
  await clock.pass(1_000)
  expect(inserts).toEqual([
    [50, [1, 2]],
    [149, [3]],
  ])
  expect(clock.waits).toEqual([])
})

test('while the database is away the waits grow, and the log says so once, and once that it is back', async () => {
  const { clock, writer, inserts, logged } = virtualWriter([1, 2, 3, 4, 5, 6, 7, 8, 10])
  writer.write(1)
  await clock.pass(60_000)
  expect(inserts.map(([atMs]) => atMs)).toEqual([50, 150, 350, 750, 1_550, 3_150, 6_350, 11_350, 16_350])
  writer.write(2)
  await clock.pass(60_000)
  expect(inserts.slice(9)).toEqual([
    [60_050, [2]],
    [60_150, [2]],
  ])
  const again = { level: 'info', event: 'rows_written_again', waiting: 0 }
  const waits = { level: 'warn', event: 'rows_wait', error: 'Error' }
  expect(logged()).toEqual([waits, again, waits, again])
  expect([writer.written(), writer.dropped()]).toEqual([2, 0])
})

test('what is dropped is counted, and logged once a second', async () => {
  const { clock, writer, logged } = virtualWriter([1, 2, 3, 4, 5, 6], 1)
  for (let row = 0; row < 4; row++) writer.write(row)
  await clock.pass(999)
  writer.write(5)
  await clock.pass(1)
  writer.write(6)
  expect(logged().filter(({ event }) => event === 'rows_dropped')).toEqual([
    { level: 'error', event: 'rows_dropped', rows: 1 },
    { level: 'error', event: 'rows_dropped', rows: 5 },
  ])
})
