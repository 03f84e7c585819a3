/** What one chat asked a server for. */
export interface AdaptedChat {
  readonly model: string
  readonly lora?: unknown
  readonly loraPath?: unknown
  /** `X-data-parallel-rank`. */
  readonly rank: string | null
  readonly prompt: string
}

export interface AdapterNode {
  readonly url: string
  readonly chats: readonly AdaptedChat[]
  /** Paths that it was posted to, but for chats. */
  readonly told: readonly string[]
  /** Its adapters by name. */
  readonly adapters: ReadonlySet<string>
  /** GETs by path. */
  readonly asked: ReadonlyMap<string, number>
  stop(): void
}

export interface AdapterOptions {
  readonly speaks: 'vllm' | 'sglang' | 'llama.cpp'
  readonly base: string
  readonly adapters?: readonly string[]
  /** Data-parallel ranks; 1: the server has one engine. */
  readonly ranks?: number
  /** What it answers for its metrics in the place of the usual ones; null: that it cannot now. */
  readonly metrics?: (usual: string) => string | null
  /** Whether it fails the chat that has come. */
  readonly fails?: () => boolean
}

const owners = { vllm: 'vllm', sglang: 'sglang', 'llama.cpp': 'llamacpp' } as const

/** Gauges in the text format of Prometheus: every rank at rest, with a cache of 8,192 tokens. */
function metricsOf(speaks: AdapterOptions['speaks'], ranks: number): string {
  const each = (name: string, label: string, value: number) =>
    Array.from({ length: ranks }, (_, rank) => `${name}{model_name="base",${label}="${rank}"} ${value}.0`)
  if (speaks === 'sglang') {
    const names = ['sglang:num_running_reqs', 'sglang:num_queue_reqs']
    return [
      ...names.flatMap((name) => each(name, 'dp_rank', 0)),
      ...each('sglang:max_total_num_tokens', 'dp_rank', 8_192),
    ].join('\n')
  }
  const info = Array.from(
    { length: ranks },
    (_, rank) => `vllm:cache_config_info{block_size="16",engine="${rank}",num_gpu_blocks="512"} 1.0`,
  )
  const names = ['vllm:num_requests_running', 'vllm:num_requests_waiting']
  return [...names.flatMap((name) => each(name, 'engine', 0)), ...info].join('\n')
}

/**
 * Plays a model server with LoRA adapters and data-parallel ranks by its published interface. vLLM: adapters stand in `/v1/models` with
 * their `parent`, `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` change them while it runs. SGLang: the same list, and `lora_path` in
 * a request. llama.cpp: `/lora-adapters`, and `lora` in a request. The first two take `X-data-parallel-rank`.
 */
export function startAdapterNode({
  speaks,
  base,
  adapters = [],
  ranks = 1,
  metrics,
  fails,
}: AdapterOptions): AdapterNode {
  const names = new Set(adapters)
  const chats: AdaptedChat[] = []
  const told: string[] = []
  const asked = new Map<string, number>()
  const listed = (id: string, parent: string | null) => ({
    ...{ id, object: 'model', created: 1, owned_by: owners[speaks], root: `/adapters/${id}`, parent },
    ...(parent === null ? { max_model_len: 8_192, meta: { n_ctx: 8_192 } } : { max_model_len: null }),
  })
  const lists = () => (speaks === 'llama.cpp' ? [] : [...names].map((id) => listed(id, base)))
  const read = (path: string): Response | null => {
    asked.set(path, (asked.get(path) ?? 0) + 1)
    if (path === '/health' || path === '/ready') return new Response('')
    if (path === '/v1/models') return Response.json({ object: 'list', data: [listed(base, null), ...lists()] })
    if (path === '/model_info' && speaks === 'sglang') return Response.json({ is_generation: true })
    if (path === '/metrics' && speaks !== 'llama.cpp') {
      const usual = metricsOf(speaks, ranks)
      const said = metrics === undefined ? usual : metrics(usual)
      return new Response(said, { status: said === null ? 503 : 200 })
    }
    if (path === '/props' && speaks === 'llama.cpp')
      return Response.json({ total_slots: 4, default_generation_settings: { n_ctx: 8_192 } })
    if (path === '/slots' && speaks === 'llama.cpp')
      return Response.json(Array.from({ length: 4 }, (_, id) => ({ id, is_processing: false })))
    if (path === '/lora-adapters' && speaks === 'llama.cpp')
      return Response.json(
        [...names].map((name, id) => ({ id, path: `/data/lora/${name}.gguf`, scale: id === 0 ? 0 : 0.5 })),
      )
    if (path === '/v1/chat/completions' && speaks === 'vllm') return new Response('', { status: 405 })
    return null
  }
  const change = async (path: string, request: Request): Promise<Response | null> => {
    const body = (await request.json()) as Readonly<Record<string, unknown>>
    if (path === '/v1/chat/completions') {
      if (fails?.() === true) return Response.json({ message: 'failed' }, { status: 500 })
      return chat(body, request.headers.get('x-data-parallel-rank'))
    }
    told.push(path)
    const name = String(body.lora_name)
    if (speaks !== 'vllm') return null
    if (path === '/v1/load_lora_adapter')
      return names.add(name) && new Response(`Success: LoRA adapter '${name}' added.`)
    if (path !== '/v1/unload_lora_adapter') return null
    return names.delete(name) ? new Response('Success') : Response.json({ message: 'not loaded' }, { status: 404 })
  }
  const chat = (body: Readonly<Record<string, unknown>>, rank: string | null): Response => {
    const { model, lora, lora_path: loraPath, messages, stream } = body
    const prompt = (messages as readonly { readonly content: string }[]).map(({ content }) => content).join('\n')
    chats.push({
      model: String(model),
      ...(lora === undefined ? {} : { lora }),
      ...(loraPath === undefined ? {} : { loraPath }),
      rank,
      prompt,
    })
    const usage = {
      prompt_tokens: Math.ceil(prompt.length / 4),
      completion_tokens: 1,
      total_tokens: Math.ceil(prompt.length / 4) + 1,
    }
    const head = { id: 'chatcmpl-1', created: 0, model }
    if (stream !== true) {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }]
      return Response.json({ ...head, object: 'chat.completion', choices, usage })
    }
    const events = [
      { choices: [{ index: 0, delta: { role: 'assistant', content: 'yes' }, finish_reason: null }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { choices: [], usage },
    ].map((event) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...event })}\n\n`)
    return new Response(`${events.join('')}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const answer = request.method === 'POST' ? await change(pathname, request) : read(pathname)
      return answer ?? Response.json({ detail: 'Not Found' }, { status: 404 })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    chats,
    told,
    adapters: names,
    asked,
    stop: () => void server.stop(true),
  }
}
