import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import { type TestGateway, waitFor } from '../gateways/gateway.ts'
import { nodeAt } from '../nodes/fake-nodes.ts'
import { type LoadResult, steadyLoad } from './steady-load.ts'

export interface PoolMember {
  readonly nodeId: string
  readonly node: FakeNode
}

export interface FailingPoolReport {
  readonly results: readonly LoadResult[]
  /** From the refused port to the admin view that shows it, ms. */
  readonly followedMs: number
  /** Requests that each node served after all had recovered. */
  readonly servedAfter: readonly number[]
}

/** Until a recovered node serves again: its polls, its hysteresis and its ejection. */
const recoveryMsMax = 15_000

export async function nodeState(gateway: TestGateway, nodeId: string): Promise<Node['state']> {
  const { state } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
  return state
}

/**
 * Three nodes under load: one is killed, one hangs, the first restarts, the second recovers; each phase lasts `phaseMs`.
 */
export async function runFailingPool(options: {
  readonly gateway: TestGateway
  readonly key: string
  readonly model: string
  readonly members: readonly PoolMember[]
  readonly perSecond: number
  readonly phaseMs: number
}): Promise<FailingPoolReport> {
  const { gateway, key, model, members, perSecond, phaseMs } = options
  const nodes = members.map(({ node }) => node)
  const [killed, hung] = [nodeAt(nodes, 0), nodeAt(nodes, 1)]
  const load = steadyLoad(gateway, key, model, perSecond)
  await Bun.sleep(phaseMs)

  const killedMs = performance.now()
  killed.setFaults({ kind: 'refuse' })
  await waitFor('the table to follow', async () => (await nodeState(gateway, members[0]?.nodeId ?? '')) === 'stale')
  const followedMs = performance.now() - killedMs
  await Bun.sleep(phaseMs)

  hung.setFaults({ kind: 'hang', scope: 'all' })
  await Bun.sleep(phaseMs)

  killed.clearFaults()
  await Bun.sleep(phaseMs)
  hung.clearFaults()
  for (const { nodeId } of members) {
    await waitFor('recovery', async () => (await nodeState(gateway, nodeId)) === 'ready', recoveryMsMax)
  }
  const before = nodes.map((node) => node.stats().requests)
  const servedAfter = () => nodes.map((node, at) => node.stats().requests - (before[at] ?? 0))
  await waitFor('traffic on every node', () => servedAfter().every((served) => served > 0), recoveryMsMax)
  return { results: await load.stop(), followedMs, servedAfter: servedAfter() }
}
