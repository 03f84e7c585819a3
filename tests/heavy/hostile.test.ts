import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openAimedLane } from '../hostile/world/aimed-lane.ts'
import { openClientLane } from '../hostile/world/client-lane.ts'
import { openFormLane } from '../hostile/world/form-lane.ts'
import { openFrameLane } from '../hostile/world/frame-lane.ts'
import { type HostileGateway, startHostileGateway } from '../hostile/world/hostile-gateway.ts'
import type { AnyLane, RunReport } from '../hostile/world/lanes.ts'
import { openNodeLane } from '../hostile/world/node-lane.ts'
import { openPathLane } from '../hostile/world/path-lane.ts'
import { openPollLane } from '../hostile/world/poll-lane.ts'
import { casesAsked, expectHarmless } from '../hostile/world/run-hostile.ts'
import { openSealedLane } from '../hostile/world/sealed-lane.ts'
import { openSoundLane } from '../hostile/world/sound-lane.ts'
import { type Way, ways, waysAsked } from '../hostile/world/ways.ts'

/**
 * `HOSTILE_WAY`, `HOSTILE_CASES`, `HOSTILE_SEED` and `HOSTILE_MINUTES` change these, so that a million cases can be run in parts: every
 * seed has cases of its own. A failure names what runs its case again.
 */
const asked = waysAsked(ways)
/** Of all cases; what goes through an agent takes longer. */
const sharesOf: Readonly<Record<Way, number>> = { direct: 4, tunnel: 2, peer: 2, processes: 2 }
const sharesAsked = asked.reduce((sum, way) => sum + sharesOf[way], 0)
const casesInAll = casesAsked(1_000_000)
const casesOf = (way: Way) => Math.ceil((casesInAll * sharesOf[way]) / sharesAsked)
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 1_000_000))
const restEvery = 20_000
const warmUpCases = 5_000
/** The heap's own breathing, after a warm-up. */
const growthBytesMax = 48 * 1024 * 1024
const hoursMax = 4
/** A way ends with as many cases as it has played by then. */
const minutesMax = Number(process.env.HOSTILE_MINUTES ?? hoursMax * 60)

type LaneName = 'node' | 'client' | 'form' | 'frame' | 'poll' | 'path' | 'sound' | 'sealed' | 'aimed'
type Lanes = Readonly<Record<LaneName, number>>
const manyLanes: Lanes = { node: 30, client: 12, form: 6, frame: 9, poll: 3, path: 2, sound: 3, sealed: 3, aimed: 3 }
/** Each node has an agent of its own, all of them in one process. */
const lanesOf: Readonly<Record<Way, Lanes>> = {
  direct: manyLanes,
  tunnel: { ...manyLanes, node: 18, client: 6, form: 0, sound: 0, aimed: 0 },
  peer: { ...manyLanes, node: 18, client: 6, form: 0, sound: 0, aimed: 0 },
  processes: { ...manyLanes, node: 24 },
}
/** `HOSTILE_LANES=0.2`: a fifth of them, where the processor is shared and many at once would only wait. */
const lanesShare = Number(process.env.HOSTILE_LANES ?? 1)
const kinds = ['own', 'public', 'paid'] as const

async function openLanes(gateway: HostileGateway): Promise<readonly AnyLane[]> {
  const wanted = lanesOf[gateway.way]
  const many = <T>(count: number, open: (at: number) => Promise<T>) =>
    Promise.all(Array.from({ length: Math.ceil(count * lanesShare) }, (_, at) => open(at)))
  const kindOf = (at: number) => kinds[at % kinds.length] ?? 'own'
  return [
    ...(await many(wanted.node, (at) => openNodeLane(gateway, kindOf(at), at))),
    ...(await many(wanted.client, (at) => openClientLane(gateway, at))),
    ...(await many(wanted.form, (at) => openFormLane(gateway, at))),
    ...(await many(wanted.frame, (at) => openFrameLane(gateway, kindOf(at), at))),
    ...(await many(wanted.poll, (at) => openPollLane(gateway, at))),
    ...(await many(wanted.path, (at) => openPathLane(gateway, at))),
    ...(await many(wanted.sound, (at) => openSoundLane(gateway, at))),
    ...(await many(wanted.sealed, (at) => openSealedLane(gateway, at))),
    ...(await many(wanted.aimed, (at) => openAimedLane(gateway, at))),
  ]
}

interface Memory {
  readonly resident: number
  readonly heap: number
  readonly descriptors: number
}

async function memory(gateway: HostileGateway): Promise<Memory> {
  const { heapBytes } = await gateway.pulse({ collect: true })
  return { resident: gateway.residentBytes(), heap: heapBytes, descriptors: gateway.descriptors() }
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1)

interface Cost {
  readonly seconds: number
  readonly cpuMs: number
}

interface Played {
  readonly way: Way
  readonly report: RunReport
  readonly before: Memory
  readonly after: Memory
  readonly cost: Cost
}

function printTable({ way, report, before, after, cost: { seconds, cpuMs } }: Played): void {
  const rows = [...report.byKind]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([kind, count]) => ({ kind, cases: count }))
  console.table(rows)
  console.table([
    {
      way,
      seed,
      cases: report.cases,
      seconds: Math.round(seconds),
      'cases/s': Math.round(report.cases / seconds),
      'gateway ms a case': (cpuMs / report.cases).toFixed(2),
      crossed: report.faults.get('crossed') ?? 0,
      leaks: report.faults.get('leak') ?? 0,
      secrets: report.faults.get('secret') ?? 0,
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
const shown: ReadonlySet<string> = new Set(['crossed', 'leak', 'secret', 'stall', 'status 500'])

describe.each(asked)('%s', (way) => {
  const cases = casesOf(way)
  let gateway: HostileGateway
  let lanes: readonly AnyLane[] = []
  beforeAll(async () => {
    gateway = await startHostileGateway(way)
    lanes = await openLanes(gateway)
  }, 300_000)
  afterAll(async () => {
    for (const lane of lanes) (lane as { stop(): void }).stop()
    await gateway.stop()
  })

  test(
    `${cases} hostile cases: 0 crossed, 0 leaks, 0 secrets, 0 stalls, 0 500s, memory flat`,
    async () => {
      const warmUp = Math.min(warmUpCases, cases >> 3)
      const warmUntilMs = performance.now() + (minutesMax * 60_000) / 4
      const warming = { casesMax: warmUp, casesMin: 1, untilMs: warmUntilMs, restEvery }
      await expectHarmless(gateway, lanes, { seed: -1 - seed, ...warming })
      const rested = (done: number) =>
        console.log(`${way}, seed ${seed}: ${done} cases, at rest, ${mib(gateway.residentBytes())} MiB`)
      const before = await memory(gateway)
      const [beganMs, usedMs] = [performance.now(), gateway.cpuMs()]
      const untilMs = beganMs + minutesMax * 60_000
      const casesMin = process.env.HOSTILE_MINUTES === undefined ? cases : 1
      const bounds = { casesMax: cases, casesMin, untilMs, restEvery }
      const report = await expectHarmless(gateway, lanes, { seed, ...bounds, rested })
      const cost = { seconds: (performance.now() - beganMs) / 1_000, cpuMs: gateway.cpuMs() - usedMs }
      const after = await memory(gateway)
      printTable({ way, report, before, after, cost })
      expect([...report.faults]).toEqual([])
      expect(after.heap - before.heap).toBeLessThan(growthBytesMax)
    },
    2 * hoursMax * 3_600_000,
  )
})
