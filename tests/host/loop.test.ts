import { expect, test } from 'bun:test'
import { sleep } from '../../src/clock.ts'
import { NoAnswer } from '../../src/deadline.ts'
import { type LoopOptions, loop } from '../../src/host/loop.ts'
import { Outage } from '../../src/host/outage.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

interface Played {
  /** How long each run takes; none: it ends at once, and not as a promise. */
  readonly lastMs?: number
  /** The numbers of the runs that fail, from 1. */
  readonly fails?: readonly number[]
  /** Ends with the signal, too. */
  readonly heeds?: boolean
}

type WithoutRun<Each> = Each extends LoopOptions ? Omit<Each, 'run' | 'clock'> : never

/** A loop on a clock of its own, and what its runs did. */
function played(options: WithoutRun<LoopOptions>, { lastMs = 0, fails = [], heeds = false }: Played = {}) {
  const clock = new VirtualClock()
  const began: number[] = []
  const ended: number[] = []
  const idle = new AbortController().signal
  const end = (number: number) => {
    ended.push(clock.now())
    if (fails.includes(number)) throw new Error(`run ${number}`)
  }
  const run = (signal: AbortSignal) => {
    const number = began.push(clock.now())
    if (lastMs === 0) return end(number)
    return sleep(lastMs, heeds ? signal : idle, clock).then(() => end(number))
  }
  return { clock, began, ended, loop: loop({ ...options, run, clock } as LoopOptions) }
}

test('the first run comes after the interval, and each next an interval after the beginning of the last', async () => {
  const { clock, began, loop } = played({ everyMs: 100 }, { lastMs: 30 })
  loop.start()
  await clock.pass(350)
  expect(began).toEqual([100, 200, 300])
})

test('a pause is counted from the end of a run', async () => {
  const { clock, began, loop } = played({ pauseMs: 100 }, { lastMs: 30 })
  loop.start()
  await clock.pass(450)
  expect(began).toEqual([100, 230, 360])
})

test('a pause may depend on how long the run took', async () => {
  const { clock, began, loop } = played({ pauseMs: (tookMs) => Math.max(50, 2 * tookMs) }, { lastMs: 40 })
  loop.start()
  await clock.pass(300)
  expect(began).toEqual([50, 170, 290])
})

test('runs do not overlap: one that takes longer than the interval is followed at once', async () => {
  const { clock, began, ended, loop } = played({ everyMs: 100 }, { lastMs: 250 })
  loop.start()
  await clock.pass(900)
  expect(began).toEqual([100, 350, 600, 850])
  expect(ended).toEqual([350, 600, 850])
})

test.each([
  [0, [90, 180, 270]],
  [0.5, [100, 200, 300]],
  [0.75, [105, 210, 315]],
])('jitter spreads the interval: where chance is %d runs begin at %p', async (chance, expected) => {
  const { clock, began, loop } = played({ everyMs: 100, jitter: 0.1, random: () => chance })
  loop.start()
  await clock.pass(320)
  expect(began).toEqual(expected)
})

test('`now` runs at once, joins the run under way, and begins a new interval', async () => {
  const { clock, began, ended, loop } = played({ everyMs: 100 }, { lastMs: 30 })
  loop.start()
  await clock.pass(50)
  const first = loop.now()
  await clock.pass(10)
  const joined = loop.now()
  await clock.pass(20)
  await Promise.all([first, joined])
  expect({ began, ended }).toEqual({ began: [50], ended: [80] })
  await clock.pass(100)
  expect(began).toEqual([50, 150])
})

test('`now` resolves also when the run fails', async () => {
  const failures: unknown[] = []
  const { loop } = played({ everyMs: 100, onFailure: (error) => failures.push(error) }, { fails: [1] })
  loop.start()
  await loop.now()
  expect(failures).toEqual([new Error('run 1')])
})

test('`soon` brings the next run forward, and never puts it off', async () => {
  const { clock, began, loop } = played({ everyMs: 100 })
  loop.start()
  loop.soon(40)
  loop.soon(70)
  loop.soon(500)
  await clock.pass(50)
  expect(began).toEqual([40])
  await clock.pass(50)
  loop.soon(70)
  await clock.pass(150)
  expect(began).toEqual([40, 140, 240])
})

test('`soon` during a run is one more run, after it', async () => {
  const { clock, began, loop } = played({ everyMs: 1_000 }, { lastMs: 30 })
  loop.start()
  void loop.now()
  for (let wishes = 0; wishes < 3; wishes++) loop.soon(0)
  await clock.pass(100)
  expect(began).toEqual([0, 30])
  expect(clock.waits).toEqual([930])
  void loop.now()
  loop.soon(80)
  await clock.pass(200)
  expect(began).toEqual([0, 30, 100, 180])
})

test('after failures the waits grow, and the rhythm comes back with the first success', async () => {
  const counts: number[] = []
  const backoff = { firstMs: 10, maxMs: 40 }
  const onFailure = (_: unknown, failures: number) => counts.push(failures)
  const { clock, began, loop } = played({ everyMs: 100, backoff, onFailure }, { fails: [1, 2, 3, 4, 6] })
  loop.start()
  await clock.pass(600)
  expect(began).toEqual([100, 110, 130, 170, 210, 310, 320, 420, 520])
  expect(counts).toEqual([1, 2, 3, 4, 1])
})

test('without a backoff a failed run changes nothing of the rhythm', async () => {
  const { clock, began, loop } = played({ everyMs: 100, onFailure: () => {} }, { fails: [1, 2] })
  loop.start()
  await clock.pass(300)
  expect(began).toEqual([100, 200, 300])
})

test('that it is away and that it is back is reported once each', async () => {
  const said: string[] = []
  const outage = new Outage(
    (error) => said.push(String(error)),
    () => said.push('back'),
  )
  const { clock, loop } = played({ everyMs: 100, outage }, { lastMs: 10, fails: [2, 3, 5] })
  loop.start()
  await clock.pass(1_000)
  expect(said).toEqual(['Error: run 2', 'back', 'Error: run 5', 'back'])
})

test('a run that takes too long has failed, and the loop goes on without it', async () => {
  const failures: unknown[] = []
  const onFailure = (error: unknown) => failures.push(error)
  const { clock, began, loop } = played({ pauseMs: 100, boundMs: 50, onFailure }, { lastMs: 300 })
  loop.start()
  await clock.pass(400)
  expect(began).toEqual([100, 250, 400])
  expect(failures).toEqual([new NoAnswer(), new NoAnswer()])
})

test('a run within its bound leaves no timer', async () => {
  const { clock, began, loop } = played({ everyMs: 100, boundMs: 50 }, { lastMs: 10 })
  loop.start()
  await clock.pass(100)
  expect(clock.waits).toEqual([10, 50])
  await clock.pass(20)
  expect({ began, waits: clock.waits }).toEqual({ began: [100], waits: [80] })
})

test('a stop in the midst of a wait ends it', async () => {
  const { clock, began, loop } = played({ everyMs: 100 })
  loop.start()
  await clock.pass(150)
  await loop.stop()
  expect(clock.waits).toEqual([])
  loop.soon(0)
  await loop.now()
  await clock.pass(500)
  expect(began).toEqual([100])
})

test('a stop in the midst of a run waits for it, and reports no failure', async () => {
  const { clock, began, ended, loop } = played(
    { everyMs: 100, onFailure: () => expect.unreachable(), outage: new Outage(() => expect.unreachable()) },
    { lastMs: 40, fails: [1] },
  )
  loop.start()
  await clock.pass(120)
  const stopped = loop.stop().then(() => clock.now())
  const joined = loop.now().then(() => clock.now())
  await clock.pass(500)
  expect(await Promise.all([stopped, joined])).toEqual([140, 140])
  expect({ began, ended }).toEqual({ began: [100], ended: [140] })
})

test('a stop aborts the signal of the run under way', async () => {
  const { clock, ended, loop } = played({ everyMs: 100 }, { lastMs: 1_000, heeds: true })
  loop.start()
  await clock.pass(120)
  await loop.stop()
  expect(ended).toEqual([120])
})

test('a loop that is started twice is one loop, and one that was stopped can be started again', async () => {
  const { clock, began, loop } = played({ everyMs: 100 }, { lastMs: 30 })
  loop.start()
  await clock.pass(50)
  loop.start()
  await clock.pass(60)
  void loop.stop()
  // Its run is still under way: the next follows it, and does not overlap with it.
  loop.start()
  loop.soon(0)
  await clock.pass(130)
  expect(began).toEqual([100, 130, 230])
})

test('a run may stop its own loop', async () => {
  const clock = new VirtualClock()
  const began: number[] = []
  const twice = loop({
    everyMs: 100,
    clock,
    run: () => {
      if (began.push(clock.now()) === 2) void twice.stop()
    },
  })
  twice.start()
  await clock.pass(1_000)
  expect(began).toEqual([100, 200])
})

test('a run that wishes for the next one while it runs gets it', async () => {
  const clock = new VirtualClock()
  const began: number[] = []
  const eager = loop({
    everyMs: 100,
    clock,
    run: () => {
      if (began.push(clock.now()) === 1) eager.soon(20)
    },
  })
  eager.start()
  await clock.pass(250)
  expect(began).toEqual([100, 120, 220])
})
