import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { type GatewayProcess, residentBytes, spawnGateway } from '../support/gateways/gateway-process.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { type ListedFleet, startListedFleet } from '../support/nodes/listed-fleet.ts'
import { customerAt, insertAccounts, patientDatabase } from '../support/pools/large-installation.ts'
import { processorSeconds } from '../support/run/processor-time.ts'

const [nodes, models, modelsOfNode] = [2_000, 500, 4]
const pollMs = 5_000
const intervals = 6
const lookEveryMs = 1_000
/** By the clock of a machine with nothing else to do. */
const startSecondsMax = 20
const withinMs = 600_000

let gateway: TestGateway
let fleet: ListedFleet
let server: GatewayProcess | undefined

beforeAll(async () => {
  fleet = startListedFleet((at) =>
    Array.from({ length: modelsOfNode }, (_, n) => `model-${(at * modelsOfNode + n) % models}`),
  )
  gateway = await startTestGateway({
    env: { SVC_METRICS_PUBLIC: 'true' },
    launch: async (env) => {
      const started = await spawnGateway(env)
      await started.stop()
      return { url: started.url, stop: async () => {} }
    },
  })
  const patient = await patientDatabase(gateway.database.url)
  await insertAccounts(patient.sql)
  const rows = Array.from({ length: nodes }, (_, at) => ({
    node_id: `node_${String(at + 1).padStart(26, '0')}`,
    customer_id: customerAt(at + 1),
    kind: 'runtime',
    name: `box ${at + 1}`,
    url: fleet.url(at),
    visibility: 'public',
    privacy_class: 'public',
    node_class: 'standard',
  }))
  await patient.sql`insert into nodes ${patient.sql(rows)}`
  await patient.sql`analyze`
  await patient.sql.end()
}, withinMs)
afterEach(async () => {
  await server?.stop()
  server = undefined
}, withinMs)
afterAll(async () => {
  await gateway?.stop()
  fleet?.stop()
}, withinMs)

const megabytes = (bytes: number) => bytes / 1e6

/** Starts a gateway and asks it all the while whether it is ready. */
async function timedStart() {
  const port = freePort()
  const began = performance.now()
  const asking = new AbortController()
  const seen = { readyMs: Number.NaN, slowestMs: 0, asked: 0 }
  const ask = async () => {
    while (!asking.signal.aborted) {
      const at = performance.now()
      const status = await fetch(`http://127.0.0.1:${port}/readyz`).then(
        async (answer) => {
          await answer.text()
          return answer.status
        },
        () => null,
      )
      if (status === null) await Bun.sleep(20)
      else {
        seen.asked++
        seen.slowestMs = Math.max(seen.slowestMs, performance.now() - at)
        if (status === 200 && Number.isNaN(seen.readyMs)) seen.readyMs = performance.now() - began
        await Bun.sleep(50)
      }
    }
  }
  const asked = ask()
  server = await spawnGateway({
    ...gateway.env,
    SVC_PORT: String(port),
    SVC_POLL_INTERVAL_MS: String(pollMs),
    SVC_WARM_UP: 'true',
  })
  const { url, pid } = server
  // A machine with no time for it may answer too late: then it is asked again.
  const ready = () => shownMetric({ url }, 'svc_nodes', 'state="ready"').catch(() => 0)
  // The metrics of 2,000 nodes are work for the gateway, too.
  while ((await ready()) < nodes) await Bun.sleep(lookEveryMs)
  const allMs = performance.now() - began
  const [startCpu, startBytes] = [processorSeconds(pid), residentBytes(pid)]
  fleet.takeCounts()
  await Bun.sleep(intervals * pollMs)
  const counts = [...fleet.takeCounts().values()]
  const pollCpu = processorSeconds(pid) - startCpu
  asking.abort()
  await asked
  return { ...seen, allMs, startCpu, startBytes, counts, pollCpu, laterBytes: residentBytes(pid) }
}

for (const known of ['new', 'known']) {
  test(
    `§37: a gateway with 2,000 ${known} nodes, 500 models, 100,000 customers and as many keys is soon ready, and asks each node once an interval`,
    async () => {
      const { readyMs, allMs, slowestMs, asked, startCpu, startBytes, counts, pollCpu, laterBytes } = await timedStart()
      // Memory is told and not judged: on a busy machine the collector gets too little time, and what is kept is a fifth of it.
      process.stdout.write(
        `${known}: ready after ${(readyMs / 1_000).toFixed(1)} s, all nodes after ${(allMs / 1_000).toFixed(1)} s, processor ${startCpu.toFixed(1)} s; ` +
          `/readyz asked ${asked} times, slowest ${slowestMs.toFixed(0)} ms; ${megabytes(startBytes).toFixed(0)} MB, later ${megabytes(laterBytes).toFixed(0)} MB; ` +
          `GETs of a node in ${intervals} intervals: at most ${Math.max(...counts)}, ${counts.reduce((sum, n) => sum + n, 0)} in all; processor ${((pollCpu / intervals) * 1_000).toFixed(0)} ms an interval\n`,
      )
      expect(counts).toHaveLength(nodes)
      // Intervals differ by a tenth: one more may fall into the time.
      expect(Math.max(...counts)).toBeLessThanOrEqual(intervals + 1)
      // Of processor time, which other programs make no longer: until all nodes are ready, not only as many as a start waits for.
      expect(startCpu).toBeLessThanOrEqual(startSecondsMax)
    },
    withinMs,
  )
}
