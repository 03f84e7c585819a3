import { afterAll, describe, expect, test } from 'bun:test'
import { AskingLane } from '../hostile/world/asking-lane.ts'
import { openFrameNode } from '../hostile/world/frame-lane.ts'
import { type FrameTwist, frameOrders, frameTwists, lateFrames } from '../hostile/world/frame-twists.ts'
import { impatient } from '../hostile/world/hostile-gateway.ts'
import { abroad } from '../hostile/world/node-lane.ts'
import { nodeOf, untilState } from '../support/nodes/agents.ts'
import { startPeerGateway } from '../support/peer-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/** Has the node's tunnel. */

/** Reaches the node through the holder. */

afterAll(() => {
  node.stop()
})
const holder = await fixture(startPeerGateway({ env: impatient }))
const asked = await fixture(startPeerGateway({ env: impatient, beside: holder }))
const policies = { policy: abroad, keyPolicy: abroad }
const customers = [await holder.customer(policies), await holder.customer(policies)]
const owner = await holder.customer(policies)
const model = 'frames'
const opened = await openFrameNode(holder, { owner: owner.customerId, visibility: 'public', model })
const node = opened.node
await untilState(asked, opened.nodeId, 'ready')
expect((await nodeOf(holder, opened.nodeId)).transport).toBe('tunnel')
expect((await nodeOf(asked, opened.nodeId)).transport).toBe('peer')
const lanes = [holder, asked].map(({ url }) => {
  const { hostname, port } = new URL(url)
  const gateway = { hostname, port: Number(port) }
  return new AskingLane({ name: url, gateway, node, twists: frameTwists, model, customers })
})

const plain = { mistaken: false, promptBytes: 0, leaveAfterMs: null, deafMs: null }
const orders = frameOrders.map((how): FrameTwist => ({ kind: 'frame order', how }))
const late = lateFrames.map((how): FrameTwist => ({ kind: 'late frames', how }))

describe('§22, §26: an answer belongs to the one stream that it names, through a tunnel and through a peer', () => {
  test.each([...orders, ...late].map((twist) => [`${twist.kind}: ${'how' in twist ? twist.how : ''}`, twist] as const))(
    '%s',
    async (_name, twist) => {
      const batch = [0, 1].flatMap((customer) =>
        [true, false].map((stream) => ({ ...plain, customer, stream, twists: [twist] })),
      )
      for (const lane of lanes) expect(await lane.play(batch)).toEqual([])
      expect(lanes.map(({ outOfStep }) => outOfStep)).toEqual([0, 0])
    },
  )
})
