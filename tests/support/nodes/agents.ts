import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../src/log.ts'
import { type RunningNode, startNode } from '../../../src/node/main.ts'
import type { NodeOptions } from '../../../src/node/node-options.ts'
import type { EnrollmentTokenIssued } from '../../../src/protocol/wire/nodes/enrollment.ts'
import { type TestGateway, waitFor } from '../gateways/gateway.ts'

export interface TestAgent {
  readonly node: RunningNode
  readonly nodeId: string
  /** The same machine once more: the same folder, started anew. */
  restart(more?: Partial<NodeOptions>): Promise<TestAgent>
  /** Stops it and removes its folder. */
  remove(): Promise<void>
}

export interface TokenOptions {
  readonly visibility?: 'private' | 'public'
  readonly privacyClass?: 'public' | 'trusted' | 'private'
  readonly nodeClass?: string
  readonly endpointUrlAllowed?: boolean
}

export async function enrollmentToken(
  gateway: TestGateway,
  customerId: string,
  options: TokenOptions = {},
): Promise<EnrollmentTokenIssued> {
  return gateway.admin('POST', '/v1/admin/enrollment-tokens', {
    customer_id: customerId,
    name: 'test machine',
    visibility: options.visibility ?? 'private',
    node_class: options.nodeClass ?? 'gpu',
    privacy_class: options.privacyClass ?? 'private',
    endpoint_url_allowed: options.endpointUrlAllowed ?? false,
  })
}

/** The real agent in this process, in a folder of its own. */
export async function startAgent(
  options: Partial<NodeOptions> & { readonly gatewayUrl: string; readonly runtimes: readonly string[] },
): Promise<TestAgent> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'penstock-agent-'))
  const all: NodeOptions = {
    hostname: '127.0.0.1',
    port: 0,
    discover: false,
    log: createLog('silent', () => {}),
    graceMs: 500,
    ...options,
    dataDir,
  }
  const node = await startNode(all)
  return {
    node,
    nodeId: node.nodeId ?? '',
    restart: (more = {}) => startAgent({ ...options, ...more, dataDir }),
    remove: async () => {
      await node.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

export interface ShownNode {
  readonly node_id: string
  readonly kind: string
  readonly state: string
  readonly transport: string | null
  readonly in_flight: number
  readonly identity_fingerprint: string | null
  readonly last_error: { readonly code: string } | null
  readonly runtimes: readonly {
    readonly runtime_id: string
    readonly models: readonly { readonly model: string; readonly ready: boolean }[]
    readonly ranking_models: readonly string[]
  }[]
}

export function nodeOf(gateway: TestGateway, nodeId: string): Promise<ShownNode> {
  return gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${nodeId}`)
}

export function untilState(gateway: TestGateway, nodeId: string, state: string, withinMs?: number): Promise<unknown> {
  return waitFor(`a node that is ${state}`, async () => (await nodeOf(gateway, nodeId)).state === state, withinMs)
}
