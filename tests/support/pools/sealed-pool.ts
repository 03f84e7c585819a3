import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { NodeOptions } from '../../../src/node/node-options.ts'
import { freePort } from '../gateways/free-port.ts'
import type { TestCustomer, TestGateway } from '../gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../nodes/agents.ts'
import { startPeerGateway } from '../peer-gateway.ts'

/** Two gateways; at the first a node behind a tunnel, and one that both call directly. */
export interface SealedPool {
  readonly gateway: TestGateway
  /** Reaches the first node through the other gateway. */
  readonly second: TestGateway
  readonly customer: TestCustomer
  readonly tunnelled: TestAgent
  readonly direct: TestAgent
  readonly servers: readonly [FakeNode, FakeNode]
  stop(): Promise<void>
}

export interface SealedPoolOptions {
  readonly answer?: NonNullable<FakeNodeOptions['answer']>
  readonly agent?: Partial<NodeOptions>
  readonly env?: Readonly<Record<string, string>>
}

/** A model server that a busy machine keeps waiting is still well. */
export const patientTimes = { pollMs: 200, pollTimeoutMs: 15_000, connectTimeoutMs: 15_000 }

export async function startSealedPool(options: SealedPoolOptions = {}): Promise<SealedPool> {
  const env = { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', ...options.env }
  const gateway = await startPeerGateway({ env })
  const second = await startPeerGateway({ env, beside: gateway })
  const customer = await gateway.customer()
  const node = {
    speaks: 'llama.cpp',
    slots: 4,
    ...(options.answer === undefined ? {} : { answer: options.answer }),
  } as const
  const servers = [
    startFakeNode({ ...node, models: ['m-1', 'm-t'] }),
    startFakeNode({ ...node, models: ['m-1', 'm-d'] }),
  ] as const
  const enrolled = async (server: FakeNode, more: Partial<NodeOptions>) => {
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, {
      endpointUrlAllowed: true,
    })
    const agent = {
      gatewayUrl: gateway.url,
      token,
      runtimes: [server.url],
      runtimeTimes: patientTimes,
      ...options.agent,
      ...more,
    }
    const made = await startAgent(agent)
    await untilState(gateway, made.nodeId, 'ready')
    await untilState(second, made.nodeId, 'ready')
    return made
  }
  const tunnelled = await enrolled(servers[0], {})
  const port = freePort()
  const direct = await enrolled(servers[1], { port, endpointUrl: `http://127.0.0.1:${port}` })
  return {
    ...{ gateway, second, customer, tunnelled, direct, servers },
    stop: async () => {
      await tunnelled.remove()
      await direct.remove()
      for (const server of servers) server.stop()
      await second.stop()
      await gateway.stop()
    },
  }
}
