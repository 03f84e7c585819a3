/**
 * A model server in a process of its own that answers at once, so that a load waits for nothing but the gateway:
 * `bun tests/support/nodes/quick-node-process.ts <models as JSON> [slots]`. With slots it is a llama.cpp. Of the model `paced` a stream
 * has `max_tokens` words, each sent by itself.
 */
const models = JSON.parse(process.argv[2] ?? '[]') as readonly string[]
const slots = Number(process.argv[3] ?? 0)

const usage = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 }
const id = 'chatcmpl-1'
const created = 1_700_000_000
const words = ['One ', 'two ', 'three ', 'four ', 'five']
const content = words.join('')

const chunk = (model: string, rest: object) =>
  `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model, ...rest })}\n\n`

const said = (word: string) => ({ choices: [{ index: 0, delta: { content: word }, finish_reason: null }] })
const rest = [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, { choices: [], usage }]
const ended = (model: string) => `${rest.map((each) => chunk(model, each)).join('')}data: [DONE]\n\n`
const eventStream = { headers: { 'content-type': 'text/event-stream' } }

function streamed(model: string): Response {
  return new Response(words.map((word) => chunk(model, said(word))).join('') + ended(model), eventStream)
}

/** Between two words, so that each comes to the gateway in a read of its own. */
const paceMs = 4

function paced(model: string, count: number): Response {
  let at = 0
  const parts = new ReadableStream<string>({
    pull: async (out) => {
      if (at++ < count) {
        out.enqueue(chunk(model, said('word ')))
        return Bun.sleep(paceMs)
      }
      out.enqueue(ended(model))
      out.close()
    },
  })
  return new Response(parts, eventStream)
}

function whole(model: string): Response {
  const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
  return Response.json({ id, object: 'chat.completion', created, model, choices, usage })
}

interface Asked {
  readonly model: string
  readonly stream?: boolean
  readonly max_tokens?: number
}

async function chat(request: Request): Promise<Response> {
  const { model, stream, max_tokens } = (await request.json()) as Asked
  if (model === 'paced') return paced(model, max_tokens ?? words.length)
  return stream === true ? streamed(model) : whole(model)
}

async function embeddings(request: Request): Promise<Response> {
  const { model, input } = (await request.json()) as { readonly model: string; readonly input: string | string[] }
  const data = [input].flat().map((_, index) => ({ object: 'embedding', index, embedding: [0.25, 0.5, -0.75, 1] }))
  return Response.json({ object: 'list', model, data, usage: { prompt_tokens: 12, total_tokens: 12 } })
}

const owner = slots > 0 ? 'llamacpp' : 'quick'
const listed = models.map((model) => ({ id: model, object: 'model', created, owned_by: owner }))
const props = { default_generation_settings: { n_ctx: 8192 }, total_slots: slots, build_info: 'b0-quick' }

const quickNode = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  routes: {
    '/health': () => Response.json({ status: 'ok' }),
    '/v1/models': () => Response.json({ object: 'list', data: listed }),
    '/v1/chat/completions': { POST: chat },
    '/v1/embeddings': { POST: embeddings },
    '/props': () => (slots > 0 ? Response.json(props) : new Response('', { status: 404 })),
  },
  fetch: () => new Response('', { status: 404 }),
})
process.stdout.write(`listening at ${quickNode.url.origin}\n`)
