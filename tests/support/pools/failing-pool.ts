import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import { type TestGateway, waitFor } from '../gateways/gateway.ts'
import { nodeAt } from '../nodes/fake-nodes.ts'
import { stopwatch } from '../run/stopwatch.ts'
import { type LoadResult, steadyLoad } from './steady-load.ts'

export interface PoolMember {
  readonly nodeId: string
  readonly node: FakeNode
}

export interface FailingPoolReport {
  readonly results: readonly LoadResult[]
  /** From the refused port to the admin view that shows it, ms. */
  readonly followedMs: number
  /** What stood on the two nodes when they failed. */
  readonly standing: number
  /** Requests that each node served after all had recovered. */
  readonly servedAfter: readonly number[]
}

export async function nodeState(gateway: TestGateway, nodeId: string): Promise<Node['state']> {
  const { state } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
  return state
}

/**
 * Three nodes under load: one is killed, one hangs, the first restarts, the second recovers; in each phase so many
 * requests end.
 */
export async function runFailingPool(options: {
  readonly gateway: TestGateway
  readonly key: string
  readonly model: string
  readonly members: readonly PoolMember[]
  readonly perSecond: number
  readonly phaseRequests: number
}): Promise<FailingPoolReport> {
  const { gateway, key, model, members, perSecond, phaseRequests } = options
  const nodes = members.map(({ node }) => node)
  const [killed, hung] = [nodeAt(nodes, 0), nodeAt(nodes, 1)]
  const load = steadyLoad(gateway, key, model, perSecond)
  const phase = () => {
    const goal = load.results.length + phaseRequests
    return waitFor('the requests of a phase', () => load.results.length >= goal)
  }
  await phase()

  const sinceMs = stopwatch()
  let standing = killed.stats().openRequests
  killed.setFaults({ kind: 'refuse' })
  await waitFor('the table to follow', async () => (await nodeState(gateway, members[0]?.nodeId ?? '')) === 'stale')
  const followedMs = sinceMs()
  await phase()

  standing += hung.stats().openRequests
  hung.setFaults({ kind: 'hang', scope: 'all' })
  await phase()
  // Whole answers that it holds are given up then; one that came back earlier would hold them until their deadline.
  await waitFor(
    'the hung node to be lost',
    async () => (await nodeState(gateway, members[1]?.nodeId ?? '')) === 'offline',
  )

  killed.clearFaults()
  await phase()
  hung.clearFaults()
  for (const { nodeId } of members) {
    await waitFor('recovery', async () => (await nodeState(gateway, nodeId)) === 'ready')
  }
  const before = nodes.map((node) => node.stats().requests)
  const servedAfter = () => nodes.map((node, at) => node.stats().requests - (before[at] ?? 0))
  // Each serves again. Whether it is chosen is a matter of what it took before.
  for (const { nodeId } of members) {
    const body = { model, messages: [{ role: 'user', content: 'again' }], svc: { node_id: nodeId } }
    await waitFor('an answer of each', async () => (await gateway.chat(key, body)).status === 200)
  }
  return { results: await load.stop(), followedMs, standing, servedAfter: servedAfter() }
}
