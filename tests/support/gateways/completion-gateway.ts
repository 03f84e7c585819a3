import { type PostInit, postJson } from '../clients/post-json.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../nodes/scripted-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from './gateway.ts'

type Script = (call: ScriptedCall) => void | Promise<void>

export interface Completion {
  readonly id: string
  readonly choices: readonly { readonly index: number; readonly text: string; readonly finish_reason: string | null }[]
  readonly usage: object
  readonly svc: { readonly receipt_hashes: readonly string[]; readonly request_id: string }
}

/** A gateway with two nodes of one customer that complete texts as a test says. */
export interface CompletionGateway {
  readonly gateway: TestGateway
  readonly customer: TestCustomer
  readonly nodes: readonly ScriptedNode[]
  /** Since the last script. */
  readonly heard: readonly ScriptedCall[]
  answerAll(script: Script): void
  ask(body: object, init?: PostInit): Promise<Response>
  answerTo(body: object): Promise<Completion>
  /** Status, code, field and words of a refusal. */
  refusal(body: object): Promise<readonly [number, string, string | null, string]>
  /** Resolves when no call is open. */
  idle(): Promise<unknown>
  stop(): Promise<void>
}

export const completionModel = 'writer'
export const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
export const choice = (text: string, finish: string | null = null) => ({
  index: 0,
  text,
  finish_reason: finish,
  logprobs: null,
})
/** The prompt and the seed. */
export const textOf = ({ body }: ScriptedCall) => `${String(body.prompt)}/${String(body.seed ?? '-')}`
export const textsOf = ({ choices }: Completion) => choices.map(({ index, text }) => [index, text] as const)

/** Whole or streamed, as it was asked. */
export async function complete(call: ScriptedCall): Promise<void> {
  if (call.body.stream !== true) return call.respond(200, { choices: [choice(textOf(call), 'stop')], usage })
  call.open()
  await call.event({ choices: [choice(textOf(call))] })
  await call.event({ choices: [choice('.', 'stop')] })
  await call.event({ choices: [], usage })
  await call.event('[DONE]')
  call.end()
}

interface Nodes {
  readonly nodes: readonly { readonly in_flight: number }[]
}

export async function startCompletionGateway(): Promise<CompletionGateway> {
  const gateway = await startTestGateway()
  const customer = await gateway.customer()
  const nodes = [startScriptedNode(completionModel), startScriptedNode(completionModel)]
  for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
  let heard: ScriptedCall[] = []
  const ask: CompletionGateway['ask'] = (body, init = {}) =>
    postJson(`${gateway.url}/v1/completions`, customer.key, { model: completionModel, ...body }, init)
  return {
    gateway,
    customer,
    nodes,
    get heard() {
      return heard
    },
    answerAll: (script) => {
      heard = []
      for (const node of nodes) {
        node.answer((call) => {
          heard.push(call)
          return script(call)
        })
      }
    },
    ask,
    answerTo: async (body) => (await (await ask(body)).json()) as Completion,
    refusal: async (body) => {
      const response = await ask(body)
      const { error } = (await response.json()) as { error: { code: string; param: string | null; message: string } }
      return [response.status, error.code, error.param, error.message]
    },
    idle: () =>
      waitFor('no call is open', async () => {
        const { nodes: all } = await gateway.admin<Nodes>('GET', '/v1/admin/nodes')
        return all.every(({ in_flight: calls }) => calls === 0)
      }),
    stop: async () => {
      for (const node of nodes) node.stop()
      await gateway.stop()
    },
  }
}
