import { afterEach, expect, test } from 'bun:test'
import { type Claimed, DueWork, type DueWorkOptions, dueWorkChannel } from '../../../src/actors/durable/due-work.ts'
import { createLog } from '../../../src/log.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { turn } from '../../support/run/turn.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0)) await clean()
})

const nothing = { items: [], more: false }

/** Work on a clock of its own, and what was logged of it. */
async function virtualWork(options: Partial<DueWorkOptions<Claimed>>) {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(...text.trim().split('\n')))
  const work = new DueWork<Claimed>({
    name: 'things',
    sql: database.sql,
    log,
    claim: async () => nothing,
    run: async () => {},
    concurrencyMax: 4,
    pollMs: 1_000,
    clock,
    ...options,
  })
  await work.start()
  cleanups.push(() => work.stop())
  const events = () => {
    log.flush()
    return lines.map((line) => JSON.parse(line).event)
  }
  return { clock, work, events }
}

test('§26: due rows are claimed at the start and every second, give or take a tenth, and swept beside it', async () => {
  let sweeps = 0
  const { clock, work } = await virtualWork({ sweep: async () => void sweeps++ })
  expect([work.claims(), sweeps]).toEqual([1, 1])
  await turn()
  const [wait = 0] = clock.waits
  expect(wait).toBeGreaterThanOrEqual(900)
  expect(wait).toBeLessThanOrEqual(1_100)
  await clock.pass(10_000)
  expect(work.claims()).toBe(sweeps)
  expect(sweeps).toBeGreaterThanOrEqual(1 + Math.floor(10_000 / 1_100))
  expect(sweeps).toBeLessThanOrEqual(1 + Math.ceil(10_000 / 900))
})

test('§26: a notice of the work is a claim at once, and a notice of other work is none', async () => {
  const { work } = await virtualWork({})
  await turn()
  await database.sql`select pg_notify(${dueWorkChannel}, 'other things')`
  await database.sql`select pg_notify(${dueWorkChannel}, 'things')`
  await waitUntil('a claim', () => work.claims() > 1)
  expect(work.claims()).toBe(2)
})

test('§26: claims do not overlap; what is asked for during one is one more, after it', async () => {
  const answers: (() => void)[] = []
  const claim = () => new Promise<typeof nothing>((resolve) => answers.push(() => resolve(nothing)))
  const { work } = await virtualWork({ claim })
  for (let asked = 0; asked < 3; asked++) work.wake()
  await turn()
  expect(answers).toHaveLength(1)
  answers.shift()?.()
  await turn()
  expect(work.claims()).toBe(2)
  answers.shift()?.()
  await turn()
  expect(work.claims()).toBe(2)
})

test('§26: a lease is renewed every 20 s while its row runs, and a lost one ends the run', async () => {
  const renewals: (readonly [number, readonly string[]])[] = []
  const ended: unknown[] = []
  let due = [{ leaseId: 'kept' }, { leaseId: 'lost' }]
  const run = ({ leaseId }: Claimed, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const end = () => {
        ended.push([leaseId, signal.reason.message])
        resolve()
      }
      signal.addEventListener('abort', end)
    })
  const { clock, work } = await virtualWork({
    run,
    claim: async () => {
      const items = due
      due = []
      return { items, more: false }
    },
    renew: async (leases) => {
      renewals.push([clock.now(), leases])
      return new Set(['kept'])
    },
  })
  await clock.pass(45_000)
  expect(renewals).toEqual([
    [20_000, ['kept', 'lost']],
    [40_000, ['kept']],
  ])
  expect(ended).toEqual([['lost', 'the lease is lost']])
  expect(work.running()).toBe(1)
  await work.stop()
  expect(ended.slice(1)).toEqual([['kept', 'the gateway stops']])
  expect(clock.waits).toEqual([])
})

test('§26: that the database is away is logged once, and once that it is back', async () => {
  let away = true
  const claim = async () => {
    if (away) throw new Error('away')
    return nothing
  }
  const { clock, events } = await virtualWork({ claim, sweep: claim as () => Promise<never> })
  await clock.pass(5_000)
  expect(events()).toEqual(['due_work_lost'])
  away = false
  await clock.pass(5_000)
  expect(events()).toEqual(['due_work_lost', 'due_work_back'])
})
