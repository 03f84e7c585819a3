import { parseArgs } from 'node:util'

/**
 * A model server in a process of its own that takes memory and time, as real ones do: it loads for `load-ms`, holds
 * `memory-mb`, and answers with its model's name after `answer-ms`. `mute-ms`:
 * so long it says nothing of its models after that. `die-with`: it writes so many lines and ends with 1. `echo`: it answers with
 * the request that it got. `sleeps`: `POST /sleep` and `POST /wake`, which fails with `wake-fails`; asleep it fails each chat.
 */
const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'tiny' },
    port: { type: 'string', default: '0' },
    'load-ms': { type: 'string', default: '100' },
    'memory-mb': { type: 'string', default: '1' },
    'answer-ms': { type: 'string', default: '10' },
    'die-with': { type: 'string' },
    'mute-ms': { type: 'string', default: '0' },
    deaf: { type: 'boolean', default: false },
    'api-key': { type: 'string' },
    echo: { type: 'boolean', default: false },
    sleeps: { type: 'boolean', default: false },
    'wake-fails': { type: 'boolean', default: false },
  },
})

if (values['die-with'] !== undefined) {
  for (let line = 1; line <= Number(values['die-with']); line++) console.error(`cannot load, line ${line}`)
  // As real ones do.
  if (values['api-key'] !== undefined)
    console.error(`started with ${process.argv.join(' ')}, ${process.env.SOME_TOKEN}`)
  process.exit(1)
}
if (values.deaf) process.on('SIGTERM', () => {})

const weights = Buffer.alloc(Number(values['memory-mb']) * 1024 * 1024, 7)
const readyAtMs = performance.now() + Number(values['load-ms'])

let asleep = false

function ordered(pathname: string): Response {
  if (pathname === '/wake' && values['wake-fails']) return new Response(null, { status: 500 })
  asleep = pathname === '/sleep'
  return new Response(null)
}

async function answer(request: Request): Promise<Response> {
  const body = (await request.json()) as { readonly model: string; readonly stream?: boolean }
  await Bun.sleep(Number(values['answer-ms']))
  const content = values.echo ? JSON.stringify(body) : `${values.model} from ${process.pid}, ${weights.length}`
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const base = { id: 'c', created: 1, model: body.model }
  if (body.stream !== true) {
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
    return Response.json({ ...base, object: 'chat.completion', choices, usage })
  }
  const chunk = (delta: object, finish: string | null, more = {}) => {
    const choices = [{ index: 0, delta, finish_reason: finish }]
    return `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices, ...more })}\n\n`
  }
  const text = `${chunk({ role: 'assistant', content }, null)}${chunk({}, 'stop', { usage })}data: [DONE]\n\n`
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
}

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(values.port),
  fetch: (request) => {
    const { pathname } = new URL(request.url)
    if (performance.now() < readyAtMs) return new Response('loading', { status: 503 })
    if (pathname === '/health') return new Response('ok')
    if (performance.now() < readyAtMs + Number(values['mute-ms'])) return new Response(null, { status: 503 })
    if (values.sleeps && (pathname === '/sleep' || pathname === '/wake')) return ordered(pathname)
    if (asleep) return new Response('asleep', { status: 500 })
    if (pathname === '/v1/rerank') return Response.json({ results: [{ index: 0, relevance_score: 0.5 }] })
    if (pathname === '/v1/models') {
      return Response.json({ object: 'list', data: [{ id: values.model, object: 'model', owned_by: 'test' }] })
    }
    return pathname === '/v1/chat/completions' ? answer(request) : new Response(null, { status: 404 })
  },
})
console.log(`${values.model} listens`)
