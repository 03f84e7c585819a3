import type { Database } from '../../db/client.ts'
import { type SealedNodeRow, sealedNodesOf } from '../../db/queries/pool/sealed-nodes.ts'
import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { placementRefusal } from '../../machines/refusals/placement-refusal.ts'
import { meantModel } from '../../machines/rules/eligibility.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import { publicKeyOf } from '../../protocol/sealed/sealed-key.ts'
import { decodeBase64Url, encodeBase64Url } from '../../protocol/signing/base64.ts'
import { fingerprint } from '../../protocol/signing/ed25519.ts'
import type { SealedNode } from '../../protocol/wire/inference/sealed.ts'
import type { Access } from '../accounts/access.ts'

interface SealedNodesPort {
  readonly db: Database
  readonly router: {
    table(): RoutingTable
    readonly caches: { match(modelId: string, prompt: null): PlacementRequest['matches'] }
  }
}

/** As many nodes as one answer names. */
const nodesMax = 64
const none: ReadonlySet<string> = new Set()

/** Places a request of which nothing but the model is known. */
function requestFor({ router }: SealedNodesPort, access: Access, modelId: string, modality: 'chat' | 'embedding') {
  return {
    ...{ modelId, modality, access, byAgents: true, ownOnly: true, freeOnly: false },
    ...{ exclude: none, side: null },
    ...{ pin: null, profileId: null, unlisted: null, prompt: null, queueWaitMs: null, cacheWaitMs: null },
    ...{ contextLeast: null, contextWanted: null, contextAbove: null },
    matches: router.caches.match(modelId, null),
    nowMs: Date.now(),
  } satisfies PlacementRequest
}

/** The nodes in the order in which requests would try them; throws the refusal if no node fits. */
function nodesInOrder(port: SealedNodesPort, access: Access, name: string): readonly NodeId[] {
  const table = port.router.table()
  const modelId = table.latest.has(name) ? meantModel({ table, access, name, ownOnly: true }) : name
  const asked = requestFor(port, access, modelId, 'chat')
  const chats = place(table, asked)
  const isEmbedding = chats.kind === 'refused' && chats.code === 'modality_not_supported'
  const request = isEmbedding ? requestFor(port, access, modelId, 'embedding') : asked
  const nodes = new Set<NodeId>()
  const exclude = new Set<string>()
  while (nodes.size < nodesMax) {
    const placement = place(table, { ...request, exclude })
    if (placement.kind === 'refused') {
      if (exclude.size === 0) throw placementRefusal(table, request, placement.code)
      break
    }
    if (placement.kind === 'asleep') {
      // The request will wake it, and its keys are known.
      for (const { nodeId } of [placement.route, ...placement.routes]) nodes.add(nodeId)
      break
    }
    for (const { profileId, nodeId } of placement.kind === 'placed' ? [placement.route] : placement.routes) {
      exclude.add(profileId)
      nodes.add(nodeId)
    }
  }
  return [...nodes]
}

/** The caller's nodes that can answer this model sealed (§38). */
export async function sealedNodes(
  port: SealedNodesPort,
  access: Access,
  modelId: string,
): Promise<readonly SealedNode[]> {
  const order = nodesInOrder(port, access, modelId)
  const rows = await sealedNodesOf(port.db, access.customerId, order)
  const byId = new Map(rows.map((row) => [row.nodeId, row]))
  return order.flatMap((nodeId) => viewOf(byId.get(nodeId)) ?? [])
}

function viewOf(row: SealedNodeRow | undefined): SealedNode | null {
  if (row === undefined || row.identityKey === null || row.sealedKeys.length === 0) return null
  const identity = encodeBase64Url(row.identityKey)
  return {
    node_id: row.nodeId,
    identity_public_key_ed25519: identity,
    fingerprint: fingerprint(identity) ?? '',
    keys: row.sealedKeys.filter(({ state }) => state !== 'revoked'),
  }
}

/** One node's newest key configuration, 41 bytes, for clients that discover by themselves. Throws `node_not_found`. */
export async function sealedKeyConfig(port: SealedNodesPort, access: Access, nodeId: string): Promise<Uint8Array> {
  const scope = access.policy.nodeScope
  const [row] = await sealedNodesOf(port.db, access.customerId, [nodeId as NodeId])
  if (row === undefined || (scope !== null && !scope.has(nodeId))) throw new Problem('node_not_found')
  const key = row.sealedKeys.find((each) => each.state === 'active' && publicKeyOf(each) !== null)
  const config = key === undefined ? null : decodeBase64Url(key.key_config)
  if (config === null) throw new Problem('node_not_found', { detail: 'The node takes no sealed requests' })
  return config
}
