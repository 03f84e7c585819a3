import type { NodeRow } from '../../db/queries/pool/pool.ts'
import { failureName } from '../../log.ts'
import { createNodeWatch, type NodeWatch, type PollResult, type Probe } from '../../polling/node-watch.ts'
import { rankReports } from '../../polling/rank-reports.ts'
import { createRuntimeProbe } from '../../polling/runtime-probe.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import { sha256Hex } from '../../secrets.ts'
import { createDirectTransport, nodeBaseUrl } from '../../transport/http1/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { createAgentProbe } from '../agents/agent-probe.ts'
import { createSignedTransport } from '../agents/signed-transport.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import type { RouterOptions } from './router-options.ts'
import type { NodeView } from './views/node-view.ts'

export interface NodeConnection {
  readonly transport: NodeTransport
  readonly probe: Probe
}

/** How to reach and to ask a node. null if its row does not say; then the node gets an error. */
export function connectionTo(node: PoolNode, options: RouterOptions): NodeConnection | null {
  const connection = node.row.kind === 'agent' ? toAgent(node, options) : toRuntime(node, options)
  if (connection === null && (node.row.url !== null || node.row.kind === 'agent')) {
    node.failedWith('unusable_row', Date.now())
    options.log.error('node_unusable', { node_id: node.row.nodeId })
  }
  return connection
}

/** Stands for the address that polls go to, and for the key that they bear: another process may still have the former row. */
export const wayMark = ({ kind, url, apiKeySealed }: NodeRow): string =>
  sha256Hex(`${kind} ${apiKeySealed?.toString('hex') ?? ''} ${url ?? ''}`)

/** How requests reach it now; null: they do not. */
export function wayTo({ row, transport, dialsIn }: PoolNode, { agents }: RouterOptions): NodeView['transport'] {
  if (transport === null) return null
  return dialsIn ? (agents?.way(row.nodeId) ?? null) : 'direct'
}

interface WatchOptions extends Pick<RouterOptions, 'config' | 'log' | 'random' | 'polls'> {
  /** `askedMs`: `performance.now()` when the poll went out. */
  readonly polled: (result: PollResult, askedMs: number) => Promise<void>
}

/** As if a sleeping node had not answered. */
const unasked = { kind: 'failed', code: 'closed' } as const

/** Asks a node regularly. */
export function watchOver(node: PoolNode, probe: Probe, options: WatchOptions): NodeWatch {
  const { config, log, random = Math.random, polls, polled } = options
  const { nodeId } = node.row
  return createNodeWatch({
    probe: (bounded) => (node.isLeftAlone(performance.now()) ? Promise.resolve(unasked) : probe(bounded)),
    intervalMs: config.SVC_POLL_INTERVAL_MS,
    timeoutMs: config.SVC_PROBE_TIMEOUT_MS,
    random,
    // The other process does not know that somebody waits for it here.
    isSpared: () => polls?.spares(nodeId, node.pollPauseMs) === true && node.wake.startedAtMs === null,
    onResult: async (result, askedMs) => {
      if (result !== unasked) polls?.record(nodeId, node.polls.way, result, askedMs)
      try {
        await polled(result, askedMs)
      } catch (error) {
        log.error('poll_not_taken', { node_id: nodeId, failure: failureName(error) })
      }
    },
  })
}

function toRuntime(
  node: PoolNode,
  { config, openSecret, modules = runtimeModules }: RouterOptions,
): NodeConnection | null {
  const { url, apiKeySealed } = node.row
  if (url === null || nodeBaseUrl(url) === null) return null
  const apiKey = apiKeySealed === null ? null : openSecret(apiKeySealed)
  if (apiKeySealed !== null && apiKey === null) return null
  const transport = createDirectTransport({ url, apiKey, connectTimeoutMs: config.SVC_CONNECT_TIMEOUT_MS })
  return { transport, probe: createRuntimeProbe(transport, modules, rankReports, () => node.polls.takeFoundKind()) }
}

function toAgent(node: PoolNode, options: RouterOptions): NodeConnection | null {
  const { agents, config } = options
  const { url, nodeId, identityKey } = node.row
  const identity = identityKey === null ? null : verifyKey(toBase64url(identityKey))
  if (agents === undefined || identity === null || (url !== null && nodeBaseUrl(url) === null)) return null
  node.identity = identity
  const { resolve } = agents.endpoints
  const connectTimeoutMs = config.SVC_CONNECT_TIMEOUT_MS
  const way =
    url === null ? agents.dialled(nodeId) : createDirectTransport({ url, apiKey: null, connectTimeoutMs, resolve })
  const transport = createSignedTransport(way, nodeId, agents.identity)
  return { transport, probe: createAgentProbe({ transport, nodeId, identity }) }
}
