import { afterAll, expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { fresh, startProcesses } from '../support/gateways/processes.ts'
import { startListedFleet } from '../support/nodes/listed-fleet.ts'
import { testLimitMs } from '../support/run/limits.ts'

const processes = 3
const nodes = 4
const intervalMs = 400
/** Looks that find each process by a connection of its own, but for a chance in a million. */
const looks = 36

const fleet = startListedFleet(() => ['m'])
const several = await startProcesses(
  {
    env: {
      SVC_POLL_INTERVAL_MS: String(intervalMs),
      SVC_STALE_AFTER_MS: '9000',
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
    },
  },
  processes,
)
afterAll(async () => {
  await several.gateway.stop()
  fleet.stop()
})
const customer = await several.gateway.customer()
for (let at = 0; at < nodes; at++) await several.gateway.node(fleet.url(at), { customerId: customer.customerId })

/** The states of all nodes, as each of many looks shows them. */
async function states(): Promise<string[]> {
  const { gateway } = several
  const headers = { 'x-svc-admin-token': gateway.tokens.admin }
  const lists = await Promise.all(
    Array.from({ length: looks }, async () => {
      const response = await fetch(`${gateway.url}/v1/admin/nodes`, { ...fresh, headers })
      return (await response.json()) as { readonly nodes: readonly Node[] }
    }),
  )
  return lists.flatMap((list) => list.nodes.filter(({ origin }) => origin === 'operator').map(({ state }) => state))
}
const allReady = () =>
  waitFor('all ready everywhere', async () => {
    const seen = await states()
    return seen.length === nodes * looks && seen.every((state) => state === 'ready')
  })

/** Counts what each node is asked until all were asked often; whether that is the rhythm of a single process. */
async function isAskedByOne(): Promise<boolean> {
  const polls = 6
  const fromMs = performance.now()
  const counts = new Map<string, number>()
  fleet.takeCounts()
  await waitFor('polls of each node', () => {
    for (const [host, count] of fleet.takeCounts()) counts.set(host, (counts.get(host) ?? 0) + count)
    return counts.size === nodes && [...counts.values()].every((count) => count >= polls)
  })
  // An interval is shorter by a tenth at most, and one poll more may fall into the time.
  const most = (performance.now() - fromMs) / (0.9 * intervalMs) + 1
  return [...counts.values()].every((count) => count <= most)
}
const askedByOne = () => waitFor('a poll of each node an interval', isAskedByOne)
/** The process that leads from the start, or has taken the place of the one that did. */
const leader = () => several.server.pids[0] ?? 0

test(
  '§37: the processes of a computer poll each node once an interval',
  async () => {
    await allReady()
    await askedByOne()
    expect(await isAskedByOne()).toBe(true)
  },
  testLimitMs,
)

test(
  '§37: while the process that polls stands still, the others poll by themselves; when it goes on, they no longer do',
  async () => {
    const stopped = leader()
    process.kill(stopped, 'SIGSTOP')
    try {
      await waitFor('polls of two processes', async () => !(await isAskedByOne()))
    } finally {
      process.kill(stopped, 'SIGCONT')
    }
    await askedByOne()
    await allReady()
  },
  testLimitMs,
)

test(
  '§37: when the process that polls dies another one polls for all, also for the one that takes its place',
  async () => {
    const before = leader()
    process.kill(before, 'SIGKILL')
    await waitFor('all serve', () => several.server.pids.length === processes && !several.server.pids.includes(before))
    await allReady()
    await askedByOne()
  },
  testLimitMs,
)

test(
  '§37: after the replacement of all processes one polls for all',
  async () => {
    await several.server.replace?.()
    await allReady()
    await askedByOne()
  },
  testLimitMs,
)
