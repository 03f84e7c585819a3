import { type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken } from '../../support/nodes/agents.ts'
import { enrollBody, newIdentity } from '../../support/nodes/enrolling.ts'
import { AskingLane } from './asking-lane.ts'
import { FrameNode } from './frame-node.ts'
import { type FrameTwist, frameTwists } from './frame-twists.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import { abroad, makePaid, type NodeLaneKind } from './node-lane.ts'

export type FrameLane = AskingLane<FrameTwist>

interface Enrolled {
  readonly node_id: string
  readonly router_public_keys: readonly { readonly kid: string }[]
}

interface FrameNodeAsked {
  /** The customer's id. */
  readonly owner: string
  readonly visibility: 'private' | 'public'
  readonly model: string
}

/** A node that has enrolled and dialled in, and that can be called. */
export async function openFrameNode(
  gateway: TestGateway & Partial<Pick<HostileGateway, 'dialUrl'>>,
  { owner, visibility, model }: FrameNodeAsked,
): Promise<{ readonly node: FrameNode; readonly nodeId: string }> {
  const token = await enrollmentToken(gateway, owner, { visibility, privacyClass: 'public' })
  const identity = newIdentity()
  const { dialUrl = gateway.url } = gateway
  const response = await fetch(`${dialUrl}/v1/node-agent/enroll`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(enrollBody(identity, token.enrollment_token)),
  })
  const { node_id: nodeId, router_public_keys: keys } = (await response.json()) as Enrolled
  const node = new FrameNode({ gatewayUrl: dialUrl, identity, nodeId, routerKid: keys[0]?.kid ?? '', model })
  await waitFor(`node ${nodeId}`, async () => {
    return (await gateway.admin<{ state: string }>('GET', `/v1/admin/nodes/${nodeId}`)).state === 'ready'
  })
  return { node, nodeId }
}

/** The same as `openNodeLane`, with a node that dials in. */
export async function openFrameLane(gateway: HostileGateway, kind: NodeLaneKind, at: number): Promise<FrameLane> {
  const model = `frames-${kind}-${at}`
  const policies = { policy: abroad, keyPolicy: abroad }
  const owner = await gateway.customer(policies)
  const others = kind === 'own' ? [owner] : await Promise.all([1, 2, 3].map(() => gateway.customer(policies)))
  const visibility = kind === 'own' ? 'private' : 'public'
  const { node } = await openFrameNode(gateway, { owner: owner.customerId, visibility, model })
  if (kind === 'paid') await makePaid(gateway, model, others)
  return new AskingLane({ name: model, gateway, node, twists: frameTwists, model, customers: others })
}
