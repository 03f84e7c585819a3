import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Server, start } from '../../src/main.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { seriesOf } from '../support/gateways/metric.ts'
import { fresh } from '../support/gateways/processes.ts'
import { type ListedFleet, startListedFleet } from '../support/nodes/listed-fleet.ts'
import { patientDatabase } from '../support/pools/large-installation.ts'
import { processorSeconds } from '../support/run/processor-time.ts'

/** A machine without the time to poll so many gets fewer. */
const nodes = Number(process.env.POLLED_NODES ?? 2_000)
const [models, modelsOfNode] = [500, 4]
const pollMs = 5_000
const intervals = 6
const withinMs = 600_000

let gateway: TestGateway
let fleet: ListedFleet
/** Processor time of a process without nodes, s an interval. */
let idleCpu = 0

beforeAll(async () => {
  fleet = startListedFleet((at) =>
    Array.from({ length: modelsOfNode }, (_, n) => `model-${(at * modelsOfNode + n) % models}`),
  )
  gateway = await startTestGateway({
    env: { SVC_METRICS_PUBLIC: 'true', SVC_POLL_INTERVAL_MS: String(pollMs), SVC_STALE_AFTER_MS: '15000' },
    launch: async (env) => {
      const started = await spawnGateway(env)
      await started.stop()
      return { url: started.url, stop: async () => {} }
    },
  })
  idleCpu = await idle()
  const customer = 'cus_00000000000000000000000001'
  const patient = await patientDatabase(gateway.database.url)
  await patient.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values (${customer}, 'one', sha256('token'), '\\x00')`
  const rows = Array.from({ length: nodes }, (_, at) => ({
    node_id: `node_${String(at + 1).padStart(26, '0')}`,
    customer_id: customer,
    kind: 'runtime',
    name: `box ${at + 1}`,
    url: fleet.url(at),
    visibility: 'public',
    privacy_class: 'public',
    node_class: 'standard',
  }))
  await patient.sql`insert into nodes ${patient.sql(rows)}`
  await patient.sql.end()
}, withinMs)
afterAll(async () => {
  await gateway?.stop()
  fleet?.stop()
}, withinMs)

/** Of the process that costs more of two. */
async function idle(): Promise<number> {
  const server = await start({ ...gateway.env, SVC_PROCESSES: '2' }, { quiet: true })
  const { pids } = server
  const before = pids.map(processorSeconds)
  await Bun.sleep(intervals * pollMs)
  const used = pids.map((pid, at) => processorSeconds(pid) - (before[at] ?? 0))
  await server.stop()
  return Math.max(...used) / intervals
}

const milliseconds = (seconds: number) => (seconds * 1_000).toFixed(0)

/** GETs of each node, and the processor time of each process, over some intervals. The leading process is the first. */
async function measured({ url, pids }: Server, processes: number) {
  // One that is busy for longer than the others wait for it is left out of their answers.
  const ready = new Set<string>()
  while (ready.size < processes) {
    await Bun.sleep(1_000)
    const text = await fetch(`${url}/metrics`, fresh).then(
      (answer) => answer.text(),
      () => '',
    )
    for (const [labels, value] of seriesOf(text, 'svc_nodes')) {
      if (labels.includes('state="ready"') && value === nodes) ready.add(/process="(\d+)"/.exec(labels)?.[1] ?? '')
    }
  }
  const startCpu = pids.map(processorSeconds)
  fleet.takeCounts()
  await Bun.sleep(intervals * pollMs)
  const counts = [...fleet.takeCounts().values()]
  return { startCpu, counts, pollCpu: pids.map((pid, at) => processorSeconds(pid) - (startCpu[at] ?? 0)) }
}

test.each([2, 4])(
  '§37: %d processes of one computer ask each node of many once an interval, and those that do not ask have little work with it',
  async (processes) => {
    const server = await start({ ...gateway.env, SVC_PROCESSES: String(processes) }, { quiet: true })
    try {
      const { startCpu, counts, pollCpu } = await measured(server, processes)
      const [leading = 0, ...following] = pollCpu.map((cpu) => cpu / intervals - idleCpu)
      process.stdout.write(
        `${processes} processes: until all are ready ${startCpu.map((cpu) => `${cpu.toFixed(1)} s`).join(', ')}; GETs of a node in ${intervals} intervals: ` +
          `at most ${Math.max(...counts)}, ${counts.reduce((sum, n) => sum + n, 0)} in all; processor an interval beyond the ${milliseconds(idleCpu)} ms of a process without nodes: ` +
          `${milliseconds(leading)} ms leading, ${following.map((cpu) => `${milliseconds(cpu)} ms`).join(', ')} following\n`,
      )
      expect(counts).toHaveLength(nodes)
      // Intervals differ by a tenth: one more may fall into the time.
      expect(Math.max(...counts)).toBeLessThanOrEqual(intervals + 1)
      // Of processor time, which other programs make no longer.
      for (const cpu of following) expect(cpu).toBeLessThan(leading / 2)
    } finally {
      await server.stop()
    }
  },
  withinMs,
)
