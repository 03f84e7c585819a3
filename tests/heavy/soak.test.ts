import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { trafficKeptMs } from '../../src/actors/console/traffic.ts'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { requestsKeptMax } from '../../src/actors/requests/request-ring.ts'
import { createLog } from '../../src/log.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { SoakLoad } from '../support/pools/soak-load.ts'
import { type SoakPool, startSoakPool } from '../support/pools/soak-pool.ts'
import { fitLine, type LineFit } from '../support/run/line-fit.ts'

const minutes = Number(process.env.SOAK_MINUTES ?? 30)
const seed = Number(process.env.SOAK_SEED ?? 1)
const clients = 24
/** Code is compiled, caches and pools fill, and so do the points of traffic, which go back the furthest. */
const warmUpMinutes = Number(process.env.SOAK_WARM_UP_MINUTES ?? trafficKeptMs / 60_000 + 1)
/** The gateway keeps its last requests and why they went where they went: first those lists are filled. */
const fillRequests = requestsKeptMax + 2_000
const slopeMibPerHourMax = 1
/** Of the live heap. A list that nothing ends keeps one of each request, or of each in ten. */
const objectsPerRequestMax = 0.02
/** In less time a slope is warm-up and chance: it is printed and not judged. */
const judgedFromMinutes = 20
/** Each client may have left a kept connection to a node behind, and the database its own. */
const descriptorsSlack = clients + 16

const minuteMs = 60_000
const mib = 2 ** 20
const allMinutes = warmUpMinutes + minutes
const times = (everyMs: number, least: number) => Math.max(least, Math.floor((allMinutes * minuteMs) / everyMs))
const nodeKills = times(40_000, 3)
const databaseKills = times(210_000, 2)
const samplesTaken = times(30_000, 12)

let pool: SoakPool
let stopped = false
beforeAll(async () => {
  pool = await startSoakPool()
}, 90_000)
afterAll(async () => {
  if (!stopped) await pool.stop()
})

/** Of the gateway's process when nobody asks, after its garbage is gone. */
interface Sample {
  readonly hours: number
  readonly residentBytes: number
  /** Of them what is no page of a file: those of the program itself come and go as the kernel likes. */
  readonly anonymousBytes: number
  readonly heapBytes: number
  readonly heapObjects: number
  /** What was asked for by then. */
  readonly requests: number
  readonly descriptors: number
}

function anonymousBytes(pid: number): number {
  const kilobytes = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes ?? Number.NaN) * 1024
}

/** An allocator hands back what was collected a while later: it has, when this long nothing more has come. */
const settledMs = 2_000
const settlingMsMax = 10_000
const lookMs = 250
const noiseBytes = mib / 2

const residentNow = () => ({
  residentBytes: pool.gateway.residentBytes(),
  anonymousBytes: anonymousBytes(pool.gateway.pid),
})

async function settledMemory() {
  const beganMs = performance.now()
  let least = residentNow()
  let leastMs = beganMs
  while (performance.now() - leastMs < settledMs && performance.now() - beganMs < settlingMsMax) {
    await Bun.sleep(lookMs)
    const now = residentNow()
    if (now.residentBytes > least.residentBytes - noiseBytes) continue
    least = now
    leastMs = performance.now()
  }
  return least
}

async function take(beganMs: number, requests: number): Promise<Sample> {
  const { gateway } = pool
  const { heapBytes, heapObjects } = await gateway.pulse({ collect: true })
  const hours = (performance.now() - beganMs) / (60 * minuteMs)
  return { hours, ...(await settledMemory()), heapBytes, heapObjects, requests, descriptors: gateway.descriptors() }
}

/** So many times, evenly, until it is over. */
async function every(count: number, lengthMs: number, act: (at: number) => Promise<unknown> | unknown): Promise<void> {
  const beganMs = performance.now()
  for (let at = 0; at < count; at++) {
    await Bun.sleep(Math.max(0, beganMs + (lengthMs * (at + 1)) / (count + 1) - performance.now()))
    await act(at)
  }
}

/** Killed databases and clients that left leave reservations that nobody renews: released by the sweep, 15 minutes later. */
async function releaseAll(): Promise<{ readonly open: number }> {
  const { sql, db } = pool.database
  const [left] = await sql<{ n: number }[]>`select count(*)::int as n from reservations where status = 'open'`
  await sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`
  const ledger = new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
  while ((await ledger.sweep()) > 0);
  return { open: left?.n ?? 0 }
}

const perHour = ({ slope, error }: LineFit) => `${(slope / mib).toFixed(2)} ± ${(error / mib).toFixed(2)}`

function slopes(samples: readonly Sample[]) {
  const fit = (of: (sample: Sample) => number) => fitLine(samples.map((sample) => [sample.hours, of(sample)]))
  return {
    resident: fit(({ residentBytes }) => residentBytes),
    anonymous: fit(({ anonymousBytes: bytes }) => bytes),
    heap: fit(({ heapBytes }) => heapBytes),
    objects: fitLine(samples.map(({ requests, heapObjects }) => [requests, heapObjects])),
  }
}

function printTable(load: SoakLoad, samples: readonly Sample[], fits: ReturnType<typeof slopes>, open: number): void {
  const [first, last] = [samples[0], samples.at(-1)]
  const size = (bytes = 0) => (bytes / mib).toFixed(1)
  for (const { hours, residentBytes, anonymousBytes: own, heapBytes, heapObjects } of samples) {
    const [resident, anonymous, heap] = [residentBytes, own, heapBytes].map(size)
    process.stdout.write(
      `minute ${(hours * 60).toFixed(1)}: ${resident} MiB resident, ${anonymous} anonymous, ${heap} heap, ${heapObjects} objects\n`,
    )
  }
  console.table([...load.outcomes].sort(([a], [b]) => a.localeCompare(b)).map(([outcome, n]) => ({ outcome, n })))
  console.table([
    {
      minutes,
      requests: load.requests,
      'node kills': nodeKills,
      'database kills': databaseKills,
      'MiB resident after warm-up': size(first?.residentBytes),
      'at the end': size(last?.residentBytes),
      'resident MiB/h': perHour(fits.resident),
      'anonymous MiB/h': perHour(fits.anonymous),
      'heap MiB/h': perHour(fits.heap),
      'objects a request': `${fits.objects.slope.toFixed(4)} ± ${fits.objects.error.toFixed(4)}`,
      'MiB heap': `${size(first?.heapBytes)} → ${size(last?.heapBytes)}`,
      descriptors: `${first?.descriptors} → ${last?.descriptors}`,
      'reservations left open': open,
    },
  ])
}

test(
  `${minutes} minutes of everything, with kills: memory and descriptors flat, books balance, no process left`,
  async () => {
    const lengthMs = allMinutes * minuteMs
    await SoakLoad.fill(pool, clients, fillRequests)
    const load = new SoakLoad(pool, clients, seed)
    const beganMs = performance.now()
    const samples: Sample[] = []
    await Promise.all([
      every(nodeKills, lengthMs, (at) => pool.killNode(at)),
      every(databaseKills, lengthMs, () => pool.killDatabase()),
      every(samplesTaken, lengthMs, async () => {
        samples.push(await load.paused(() => take(beganMs, load.requests)))
      }),
    ])
    await load.stop()
    const steady = samples.filter(({ hours }) => hours * 60 > warmUpMinutes)
    const fits = slopes(steady)
    await waitFor('the database', async () => (await fetch(`${pool.gateway.url}/readyz`)).status === 200, minuteMs)
    const { open } = await releaseAll()
    printTable(load, steady, fits, open)
    await expectBooksBalance(pool.database.db)
    stopped = true
    expect(await pool.stop()).toEqual([])
    expect(load.faults.slice(0, 5)).toEqual([])
    const [first, last] = [steady[0]?.descriptors ?? 0, steady.at(-1)?.descriptors ?? 0]
    expect(last - first).toBeLessThanOrEqual(descriptorsSlack)
    if (minutes < judgedFromMinutes) return
    // What chance alone could have made is no leak: the live heap has waves of some minutes.
    expect(fits.objects.slope - 2 * fits.objects.error).toBeLessThan(objectsPerRequestMax)
    for (const { slope, error } of [fits.resident, fits.anonymous, fits.heap]) {
      expect((slope - 2 * error) / mib).toBeLessThan(slopeMibPerHourMax)
    }
  },
  (allMinutes + 10) * minuteMs,
)
