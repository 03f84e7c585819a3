import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openClientLane } from '../hostile/world/client-lane.ts'
import { openFormLane } from '../hostile/world/form-lane.ts'
import { openFrameLane } from '../hostile/world/frame-lane.ts'
import { type HostileGateway, startHostileGateway } from '../hostile/world/hostile-gateway.ts'
import type { AnyLane, RunReport } from '../hostile/world/lanes.ts'
import { openNodeLane } from '../hostile/world/node-lane.ts'
import { openPollLane } from '../hostile/world/poll-lane.ts'
import { casesAsked, expectHarmless } from '../hostile/world/run-hostile.ts'

/** `HOSTILE_CASES`, `HOSTILE_SEED` and `HOSTILE_MINUTES` change these; a failure names what runs its case again. */
const cases = casesAsked(1_000_000)
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 1_000_000))
const restEvery = 20_000
const warmUpCases = 5_000
/** The heap's own breathing, after a warm-up. */
const growthBytesMax = 48 * 1024 * 1024
const hoursMax = 4
/** The run ends with as many cases as it has played by then. */
const minutesMax = Number(process.env.HOSTILE_MINUTES ?? hoursMax * 60)

const lanesOf = { node: 30, client: 12, form: 6, frame: 9, poll: 3 } as const
const kinds = ['own', 'public', 'paid'] as const

let gateway: HostileGateway
let lanes: readonly AnyLane[]
beforeAll(async () => {
  gateway = await startHostileGateway()
  const many = <T>(count: number, open: (at: number) => Promise<T>) =>
    Promise.all(Array.from({ length: count }, (_, at) => open(at)))
  const kindOf = (at: number) => kinds[at % kinds.length] ?? 'own'
  lanes = [
    ...(await many(lanesOf.node, (at) => openNodeLane(gateway, kindOf(at), at))),
    ...(await many(lanesOf.client, (at) => openClientLane(gateway, at))),
    ...(await many(lanesOf.form, (at) => openFormLane(gateway, at))),
    ...(await many(lanesOf.frame, (at) => openFrameLane(gateway, kindOf(at), at))),
    ...(await many(lanesOf.poll, (at) => openPollLane(gateway, at))),
  ]
}, 120_000)
afterAll(async () => {
  for (const lane of lanes) (lane as { stop(): void }).stop()
  await gateway.stop()
})

interface Memory {
  readonly resident: number
  readonly heap: number
  readonly descriptors: number
}

async function memory(): Promise<Memory> {
  const { heapBytes } = await gateway.pulse({ collect: true })
  return { resident: gateway.residentBytes(), heap: heapBytes, descriptors: gateway.descriptors() }
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1)

interface Cost {
  readonly seconds: number
  readonly cpuMs: number
}

function printTable(report: RunReport, before: Memory, after: Memory, { seconds, cpuMs }: Cost): void {
  const rows = [...report.byKind]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([kind, count]) => ({ kind, cases: count }))
  console.table(rows)
  console.table([
    {
      cases: report.cases,
      seconds: Math.round(seconds),
      'cases/s': Math.round(report.cases / seconds),
      'gateway ms a case': (cpuMs / report.cases).toFixed(2),
      crossed: report.faults.get('crossed') ?? 0,
      leaks: report.faults.get('leak') ?? 0,
      'stalls over 250 ms': report.faults.get('stall') ?? 0,
      'status 500': report.faults.get('status 500') ?? 0,
      'other faults': [...report.faults].filter(([kind]) => !shown.has(kind)).reduce((sum, [, n]) => sum + n, 0),
      'asked again': report.retried,
      'out of step, own customer': report.outOfStep,
      'longest turn ms': Math.round(report.worstMs),
      'times at rest': report.rests,
      'MiB resident before': mib(before.resident),
      after: mib(after.resident),
      'MiB heap before': mib(before.heap),
      'heap after': mib(after.heap),
      descriptors: `${before.descriptors} → ${after.descriptors}`,
    },
  ])
}
const shown: ReadonlySet<string> = new Set(['crossed', 'leak', 'stall', 'status 500'])

test(
  `${cases} hostile cases: 0 crossed, 0 leaks, 0 stalls, 0 500s, memory flat`,
  async () => {
    const warmUp = Math.min(warmUpCases, cases)
    await expectHarmless(gateway, lanes, { seed: seed + 1, casesMax: warmUp, casesMin: warmUp, restEvery })
    const rested = (done: number) => console.log(`${done} cases, at rest, ${mib(gateway.residentBytes())} MiB`)
    const before = await memory()
    const [beganMs, usedMs] = [performance.now(), gateway.cpuMs()]
    const untilMs = beganMs + minutesMax * 60_000
    const casesMin = process.env.HOSTILE_MINUTES === undefined ? cases : 1
    const report = await expectHarmless(gateway, lanes, { seed, casesMax: cases, casesMin, untilMs, restEvery, rested })
    const cost = { seconds: (performance.now() - beganMs) / 1_000, cpuMs: gateway.cpuMs() - usedMs }
    const after = await memory()
    printTable(report, before, after, cost)
    expect([...report.faults]).toEqual([])
    expect(after.heap - before.heap).toBeLessThan(growthBytesMax)
  },
  2 * hoursMax * 3_600_000,
)
