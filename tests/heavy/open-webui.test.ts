import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  byConnection,
  type Connection,
  type OpenWebUi,
  openWebUi,
  startMs,
  startOpenWebUi,
} from '../support/clients/open-webui.ts'
import { torchPythonWith } from '../support/clients/torch.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'

/** Open WebUI itself before a gateway, by its own interface. */
const found = await torchPythonWith([openWebUi.requirement])
const python = typeof found === 'string' ? null : found.python
if (typeof found === 'string') console.log(`skipped: ${found}`)

const messages = [{ role: 'user', content: 'hi' }]
const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
const called = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }

async function answer(call: ScriptedCall): Promise<void> {
  if (call.path === '/v1/embeddings') {
    return call.respond(200, { object: 'list', data: [{ index: 0, embedding: [0.5, -0.5] }], model: 'm-embed', usage })
  }
  if (call.body.stream === true) {
    call.open()
    await call.event(nodeChunk({ role: 'assistant', content: 'well' }))
    await call.event(nodeChunk({ content: ' said' }))
    await call.event(nodeChunk({}, 'stop', { usage }))
    await call.event('[DONE]')
    return call.end()
  }
  const message = call.body.tools === undefined ? { content: 'well said' } : { content: null, tool_calls: [called] }
  const finish = call.body.tools === undefined ? 'stop' : 'tool_calls'
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }]
  call.respond(200, { id: 'a', object: 'chat.completion', created: 1, model: 'm', choices, usage })
}

/** In a format of others, of which the test looks at some places. */
type Told = ReturnType<typeof JSON.parse>
const namesOf = (list: readonly Told[], name: string): readonly string[] =>
  list.map((entry) => String(entry[name])).toSorted()

describe.skipIf(python === null).each(Object.keys(byConnection) as Connection[])(
  '§35: Open WebUI by %s',
  (connection) => {
    let nodes: readonly ScriptedNode[]
    let gateway: TestGateway
    let keyless: TestGateway
    let program: OpenWebUi
    beforeAll(async () => {
      nodes = [startScriptedNode('m'), startScriptedNode('m-embed')]
      gateway = await startTestGateway()
      const { customerId, key } = await gateway.customer()
      for (const node of nodes) {
        node.answer(answer)
        await gateway.node(node.url, { customerId })
      }
      const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_OLLAMA_KEY: key, SVC_PROCESSES: '1' }
      keyless = await startTestGateway({ beside: gateway, env })
      const url = connection === 'openai' ? `${gateway.url}/v1` : (keyless.ollamaUrl ?? '')
      program = await startOpenWebUi(python ?? '', { connection, url, key })
    }, startMs)
    afterAll(async () => {
      await program?.stop()
      await keyless?.stop()
      await gateway?.stop()
      for (const node of nodes ?? []) node.stop()
    })

    const asked = async (path: string, body?: object): Promise<Told> => (await program.call(path, body)).json()

    /** A chat whose reader goes away after the first words: true once the node’s call has ended. */
    async function leaves(): Promise<true> {
      const [node] = nodes
      if (node === undefined) throw new Error('there is no node')
      node.answer(null)
      try {
        const leave = new AbortController()
        const chat = program.call('/api/chat/completions', { model: 'm', messages, stream: true }, leave.signal)
        const call = await node.next()
        call.open()
        await call.event(nodeChunk({ role: 'assistant', content: 'well' }))
        await (await chat).body?.getReader().read()
        leave.abort()
        await call.gone
        return true
      } finally {
        node.answer(answer)
      }
    }

    /** It gives Ollama nothing of a body but what it has in `options`. */
    async function refused(): Promise<readonly unknown[]> {
      const hot = connection === 'openai' ? { temperature: 9 } : { options: { temperature: 9 } }
      const response = await program.call('/api/chat/completions', { model: 'm', messages, ...hot })
      const { error, detail } = (await response.json()) as Told
      return [response.status, ...(connection === 'openai' ? [error.code, error.param] : [detail])]
    }

    test(
      'models, chats, tools, embeddings, Messages, errors, and whoever leaves',
      async () => {
        // It knows no model before somebody has looked at the list.
        const { data: listed } = await asked('/api/models')
        const chat = '/api/chat/completions'
        const text = await (await program.call(chat, { model: 'm', messages, stream: true })).text()
        const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))
        const anthropic = await asked('/api/v1/messages', { model: 'm', messages, max_tokens: 9 })
        expect({
          models: namesOf(listed, 'id'),
          whole: (await asked(chat, { model: 'm', messages })).choices[0].message.content,
          stream: [
            chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? '').join(''),
            text.trimEnd().split('\n').at(-1) ?? '',
          ],
          tool: (await asked(chat, { model: 'm', messages, tools })).choices[0].message.tool_calls[0].function.name,
          embedding: (await asked('/api/embeddings', { model: 'm-embed', input: 'hi' })).data[0].embedding,
          messages: [anthropic.content[0].text, anthropic.stop_reason],
          refused: await refused(),
          left: await leaves(),
        }).toEqual(byConnection[connection] as never)
      },
      startMs,
    )
  },
)
