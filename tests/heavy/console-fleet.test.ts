import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import type { FakeNode } from '../../src/fake-node/fake-node.ts'
import { launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { startFakeNodes } from '../support/nodes/fake-nodes.ts'

/** Of 2,000 nodes so many answer; the others are agents that have never dialled in. */
const [nodesMax, answering] = [2_000, 100]
const minutes = Number(process.env.CONSOLE_MINUTES ?? 10)
const perSecond = 10
/** What the page may do at a time, of its own processor time: a machine that does other work makes it no longer. ms */
const taskMsMax = 100
/** The heap of a page that leaks nothing moves by this much after collections, MiB. */
const heapMiBSlack = 4

let gateway: TestGateway
let customer: TestCustomer
let browser: Browser
let nodes: readonly FakeNode[]

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_POLL_INTERVAL_MS: '5000' },
    launch: spawnGateway,
  })
  customer = await gateway.customer()
  nodes = startFakeNodes(answering, (at) => ({
    models: [`model-${at % 10}`],
    answer: { chunks: 20, intervalMs: 20, firstTokenMs: 100 },
  }))
  for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId, unready: true })
  await gateway.database.sql`
    insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, admin_state)
    select 'node_' || lpad(n::text, 26, '0'), ${customer.customerId}, 'agent', 'box-' || n, 'private', 'private',
      case when n % 4 = 0 then 'small' else 'big' end, case when n % 10 = 0 then 'draining' else 'active' end
    from generate_series(${answering + 1}::int, ${nodesMax}) n`
  browser = await launchBrowser()
}, 300_000)
afterAll(async () => {
  await browser?.close()
  for (const node of nodes ?? []) node.stop()
  await gateway?.stop()
})

interface TraceEvent {
  readonly name: string
  readonly ph: string
  /** Of processor time, µs. */
  readonly tdur?: number
  readonly dur?: number
  readonly pid: number
  readonly tid: number
  readonly args?: { readonly name?: string }
}

/** The longest task of the page's own thread, in processor time and by the clock, ms. */
function longestTask(trace: Buffer): { readonly cpuMs: number; readonly wallMs: number; readonly tasks: number } {
  const { traceEvents: events } = JSON.parse(trace.toString()) as { readonly traceEvents: readonly TraceEvent[] }
  const main = new Set(
    events
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  )
  const tasks = events.filter(({ name, ph, pid, tid }) => name === 'RunTask' && ph === 'X' && main.has(`${pid} ${tid}`))
  const longest = (of: (event: TraceEvent) => number) => Math.max(0, ...tasks.map(of)) / 1_000
  return { cpuMs: longest(({ tdur = 0 }) => tdur), wallMs: longest(({ dur = 0 }) => dur), tasks: tasks.length }
}

test(
  '§36: a pool of 2,000 nodes under traffic: no task of the page is longer than 100 ms, and its heap stays flat',
  async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await console.signIn(gateway.tokens.operator)
    await page.goto(`${gateway.url}/console#pool?form=map`)
    await page
      .locator('.pool-map .tile')
      .nth(nodesMax - 1)
      .waitFor()
    const devtools = await page.context().newCDPSession(page)
    const heapMiB = async () => {
      await devtools.send('HeapProfiler.collectGarbage')
      return (await devtools.send('Runtime.getHeapUsage')).usedSize / 2 ** 20
    }
    let asked = 0
    let failed = 0
    const open = new Set<Promise<void>>()
    const traffic = setInterval(() => {
      const call = gateway
        .chat(customer.key, {
          model: `model-${asked++ % 10}`,
          stream: true,
          messages: [{ role: 'user', content: `question ${asked}` }],
        })
        .then(async (answer) => {
          await answer.text()
          if (answer.status !== 200) failed++
        })
        .catch(() => void failed++)
        .finally(() => open.delete(call))
      open.add(call)
    }, 1_000 / perSecond)
    const heaps: number[] = []
    const longest: ReturnType<typeof longestTask>[] = []
    try {
      for (let minute = 0; minute < minutes; minute++) {
        await browser.startTracing(page, {
          categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
        })
        await Bun.sleep(30_000)
        longest.push(longestTask(await browser.stopTracing()))
        await Bun.sleep(30_000)
        heaps.push(await heapMiB())
      }
    } finally {
      clearInterval(traffic)
      await Promise.all(open)
    }
    const [cpuMs, wallMs] = [
      Math.max(...longest.map((each) => each.cpuMs)),
      Math.max(...longest.map((each) => each.wallMs)),
    ]
    process.stdout.write(
      `${asked} requests, ${failed} failed; tasks seen ${longest.reduce((sum, { tasks }) => sum + tasks, 0)}, the longest ${cpuMs.toFixed(0)} ms of processor time, ${wallMs.toFixed(0)} ms by the clock; heap after each minute, MiB: ${heaps.map((mib) => mib.toFixed(1)).join(' ')}\n`,
    )
    expect(asked).toBeGreaterThan(minutes * 60 * perSecond * 0.5)
    expect(Math.min(...longest.map(({ tasks }) => tasks))).toBeGreaterThan(100)
    expect(cpuMs).toBeLessThanOrEqual(taskMsMax)
    const [early = 0, late = 0] = [heaps[0], heaps.at(-1)]
    expect(late).toBeLessThanOrEqual(early + heapMiBSlack)
    expect(console.faults).toEqual([])
    await console.close()
  },
  (minutes + 4) * 60_000,
)
