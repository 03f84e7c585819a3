import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { type ExpectedRefusal, expectRefusal } from '../clients/chat-refusal.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../nodes/fake-nodes.ts'

/** Stands in every prompt; no answer to a refused request may hold it. */
export const secret = 'the-prompt-nobody-may-see'
export const messages = [{ role: 'user', content: secret }]
export const chatPath = '/v1/api/chat/completions'

export interface Ask {
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: string
  readonly raw?: BodyInit
}

/** A gateway with the machines of two customers: enough for every refusal of the chat endpoint. */
export interface ChatPool {
  readonly gateway: TestGateway
  /** `m` and `stays`, `m` and `gone`; another customer's `theirs` and public `public`; `one-slot` with one slot. */
  readonly nodes: readonly FakeNode[]
  readonly own: FakeNode
  readonly customer: TestCustomer
  readonly other: TestCustomer
  readonly ownNodeId: string
  readonly secondNodeId: string
  readonly foreignNodeId: string
  readonly profileId: string
  readonly foreignProfileId: string
  /** `body` over a valid request; a field that is undefined is left out. */
  ask(body?: object, more?: Ask): Promise<Response>
  /** The body that the node received of a request that must be answered with 200. */
  accepted(body: object, more?: Ask): Promise<Record<string, unknown>>
  stop(): Promise<void>
}

export interface ShownNode {
  readonly state: string
  readonly runtimes: readonly {
    readonly models: readonly { readonly model_profile_id: string; readonly model: string }[]
  }[]
}

export const refused = (response: Response, expected: ExpectedRefusal) => expectRefusal(response, expected, secret)
export const bad = (code: string, param?: string | null): ExpectedRefusal => ({
  status: 400,
  code,
  retry: false,
  ...(param === undefined ? {} : { param }),
})
export const invalid = (param?: string) => bad('invalid_request', param)

export async function startChatPool(): Promise<ChatPool> {
  const gateway = await startTestGateway({
    env: { SVC_QUEUE_WAIT_MS: '50', SVC_TTFT_TIMEOUT_MS: '6000', SVC_AUTH_FAILURES_PER_MINUTE: '10000' },
  })
  const customer = await gateway.customer()
  const other = await gateway.customer()
  const contextLength = 8_192
  const models = [['m', 'stays'], ['m', 'gone'], ['theirs'], ['public'], ['one-slot']]
  const nodes = startFakeNodes(models.length, (at) => ({
    models: models[at] ?? [],
    contextLength,
    ...(at === 4 ? { speaks: 'llama.cpp' as const, slots: 1 } : {}),
  }))
  const foreign = { customerId: other.customerId }
  const owners = [{}, {}, foreign, { ...foreign, visibility: 'public' as const, privacyClass: 'public' as const }, {}]
  const [ownNodeId = '', secondNodeId = '', foreignNodeId = ''] = await Promise.all(
    nodes.map(({ url }, at) => gateway.node(url, { customerId: customer.customerId, ...owners[at] })),
  )
  const profileOf = async (nodeId: string, model: string) => {
    const shown = await gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${nodeId}`)
    const listed = shown.runtimes.flatMap((runtime) => runtime.models)
    return listed.find((entry) => entry.model === model)?.model_profile_id ?? ''
  }
  const ask: ChatPool['ask'] = (body = {}, { key = customer.key, headers = {}, query = '', raw } = {}) =>
    fetch(gateway.url + chatPath + query, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: raw ?? JSON.stringify({ model: 'm', messages, ...body }),
    })
  return {
    gateway,
    nodes,
    own: nodeAt(nodes, 0),
    customer,
    other,
    ownNodeId,
    secondNodeId,
    foreignNodeId,
    profileId: await profileOf(ownNodeId, 'm'),
    foreignProfileId: await profileOf(foreignNodeId, 'theirs'),
    ask,
    accepted: async (body, more) => {
      const response = await ask(body, more)
      if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
      await response.text()
      const received = nodes.flatMap(({ requests }) => requests).sort((a, b) => a.atMs - b.atMs)
      return received.at(-1)?.body as Record<string, unknown>
    },
    stop: async () => {
      for (const node of nodes) node.stop()
      await gateway.stop()
    },
  }
}
