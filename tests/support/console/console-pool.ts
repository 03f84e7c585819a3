import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'

/** Shorter than a mixture may last, and longer than anybody looks at one. */
const heldMs = 110_000
const firstTokenMs = 20
const text = 'Water runs down the penstock, turns the wheel, and leaves as light. '.repeat(2)

/** A pool worth looking at: machines of several speeds, one in trouble. */
export interface ConsolePool {
  readonly gateway: TestGateway
  readonly customer: TestCustomer
  readonly nodes: readonly FakeNode[]
  readonly nodeIds: readonly string[]
  /** A mixture of the first three models. */
  mixture(): { readonly id: Promise<string>; readonly done: Promise<Response> }
  /** The experts of the next mixture think until the function that it returns is called, or until the mixture may last no longer. */
  hold(): () => void
  /** Resolves with the id of the request when its answer has been read. */
  chat(model?: string): Promise<string>
  /** Traffic of all kinds for so long: for pictures. */
  work(ms: number): Promise<void>
  stop(): Promise<void>
}

export const models = ['llama-3.3-70b', 'qwen3-32b', 'mistral-small', 'gemma-3-27b'] as const
const names = ['rack-1', 'rack-2', 'studio', 'workshop'] as const
export const nodeNames = names

export async function startConsolePool(env: Readonly<Record<string, string>> = {}): Promise<ConsolePool> {
  const gateway = await startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '100000', ...env } })
  const customer = await gateway.customer()
  const nodes = models.map((model, at) =>
    startFakeNode({
      models: [model],
      answer: { text, chunks: 20, firstTokenMs: firstTokenMs + 15 * at, intervalMs: 2 + at },
    }),
  )
  const nodeIds: string[] = []
  for (const [at, node] of nodes.entries()) {
    const id = await gateway.node(node.url, { customerId: customer.customerId })
    await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { name: names[at] })
    nodeIds.push(id)
  }
  const messages = [{ role: 'user', content: 'What is a penstock?' }]
  const experts = models.slice(0, 3).map((model) => ({ model }))
  const mixtureBody = { model: 'council', messages, svc: { mixture: { strategy: 'vote', experts } } }
  return {
    gateway,
    customer,
    nodes,
    nodeIds,
    mixture: () => {
      const asked = nodes[0]?.nextRequest()
      const done = gateway.chat(customer.key, mixtureBody)
      const id = (async () => {
        await asked
        const { transitions } = await gateway.admin<{ transitions: readonly { id: string }[] }>(
          'GET',
          '/v1/admin/machines/mixture/transitions?limit=1',
        )
        return transitions[0]?.id ?? ''
      })()
      return { id, done }
    },
    hold: () => {
      const experts = nodes.slice(0, 3)
      for (const node of experts) node.setAnswer({ firstTokenMs: heldMs })
      return () => {
        for (const node of experts) {
          node.setAnswer({ firstTokenMs })
          node.release()
        }
      }
    },
    chat: async (model = models[0]) => {
      const response = await gateway.chat(customer.key, { model, messages, stream: true })
      await response.text()
      return response.headers.get('x-request-id') ?? ''
    },
    work: async (ms) => {
      const until = performance.now() + ms
      const client = async (at: number) => {
        while (performance.now() < until) {
          if (at === 0) await (await gateway.chat(customer.key, mixtureBody)).body?.cancel()
          else await (await gateway.chat(customer.key, { model: models[at], messages, stream: true })).text()
          if (Math.random() < 0.1) await (await gateway.chat(customer.key, { model: 'gone', messages })).text()
          await Bun.sleep(400 * Math.random() ** 2 + 200 * (1 + Math.sin(performance.now() / 9_000)))
        }
      }
      await Promise.all([0, 1, 2, 3, 1, 2].map(client))
    },
    stop: async () => {
      for (const node of nodes) node.stop()
      await gateway.stop()
    },
  }
}
