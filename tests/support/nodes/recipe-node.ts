/** A model server for the examples of the documents: it does every kind of work, and answers each always alike. */
export interface RecipeNode {
  readonly url: string
  stop(): Promise<void>
}

const models = [
  'qwen3-32b',
  'qwen2.5-vl-7b',
  'nomic-embed-text',
  'bge-reranker-v2-m3',
  'whisper-1',
  'tts-1',
  'flux.1-schnell',
]
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=='

interface Sent {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  readonly tools?: unknown
  readonly response_format?: unknown
  readonly stream?: boolean
}

function messageOf({ messages, tools, response_format: format }: Sent): object {
  const last = messages.at(-1)
  if (last?.role === 'tool') return { content: 'It is -4 °C in Oslo.' }
  if (tools !== undefined) {
    const called = { name: 'temperature', arguments: '{"city":"Oslo"}' }
    return { content: null, tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: called }] }
  }
  if (format !== undefined) return { content: '{"name":"Ada Lovelace","born":1815}' }
  return { content: Array.isArray(last?.content) ? 'A red dot.' : 'Hello.' }
}

function chat(sent: Sent): Response {
  const message = { role: 'assistant', ...messageOf(sent) }
  const finish_reason = 'tool_calls' in message ? 'tool_calls' : 'stop'
  const head = { id: 'c', created: 1, model: 'm' }
  if (sent.stream !== true) {
    return Response.json({ ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage })
  }
  const chunks = [
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: message, finish_reason: null }] },
    { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason }], usage },
  ]
  const lines = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((line) => `data: ${line}\n\n`)
  return new Response(lines.join(''), { headers: { 'content-type': 'text/event-stream' } })
}

const listOf = (input: unknown): readonly unknown[] => (Array.isArray(input) ? input : [input])

const answers: Readonly<Record<string, (request: Request) => Promise<Response>>> = {
  '/v1/chat/completions': async (request) => chat((await request.json()) as Sent),
  '/v1/completions': async () =>
    Response.json({
      id: 'c',
      object: 'text_completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, text: ' return a + b', finish_reason: 'stop' }],
      usage,
    }),
  '/v1/embeddings': async (request) => {
    const { input } = (await request.json()) as { input: unknown }
    const data = listOf(input).map((_, index) => ({ object: 'embedding', index, embedding: [0.5, 0.5, 0.5, 0.5] }))
    return Response.json({ object: 'list', data, model: 'm', usage: { prompt_tokens: 4, total_tokens: 4 } })
  },
  '/v1/rerank': async (request) => {
    const { documents } = (await request.json()) as { documents: readonly string[] }
    const results = documents.map((text, index) => ({ index, relevance_score: text.includes('France') ? 0.9 : 0.1 }))
    return Response.json({ results, usage: { prompt_tokens: 4, total_tokens: 4 } })
  },
  '/v1/audio/transcriptions': async () => Response.json({ text: 'Hello.' }),
  '/v1/audio/speech': async () => new Response('sound', { headers: { 'content-type': 'audio/mpeg' } }),
  '/v1/images/generations': async () => Response.json({ created: 1, data: [{ b64_json: picture }] }),
}

export function startRecipeNode(): RecipeNode {
  const list = { object: 'list', data: models.map((id) => ({ id, object: 'model' })) }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (request.method === 'GET')
        return pathname === '/v1/models' ? Response.json(list) : new Response(null, { status: 404 })
      return (await answers[pathname]?.(request)) ?? new Response(null, { status: 404 })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
