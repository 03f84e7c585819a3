/** A model server that speaks Ollama's probes: a model is loaded by the first chat for it, and leaves when it is told to. */
export interface OllamaNode {
  readonly url: string
  /** Models in memory. */
  readonly loaded: ReadonlySet<string>
  /** Chats, and wishes for a load, that wait for it. */
  readonly waiting: number
  /** Ends the loads that are under way, and those that come. */
  finishLoads(): void
  /** Loads fail from now on, also those under way. */
  failLoads(): void
  unload(model: string): void
  /** Chats so far. */
  readonly chats: number
  /** What was asked of it by POST, in order. */
  readonly calls: readonly { readonly path: string; readonly body: Readonly<Record<string, unknown>> }[]
  stop(): void
}

export interface OllamaNodeOptions {
  readonly models: readonly string[]
  readonly memoryBytes?: number
  /** Of that, on the card; absent: all. */
  readonly videoBytes?: number
  /** Further members of a model's entry in the list. */
  readonly entries?: Readonly<Record<string, object>>
  /** On the disk. */
  readonly fileBytes?: number
  /** Of every prompt, as the server says. */
  readonly cachedTokens?: number
  readonly promptTokens?: number
  /** So many times it still says that a model is in memory that it has let go. */
  readonly saysLoadedFor?: number
  /** True: loads end when the test says so. */
  readonly holdLoads?: boolean
}

export function startOllamaNode(options: OllamaNodeOptions): OllamaNode {
  const {
    models,
    memoryBytes = 5_000_000_000,
    promptTokens = 1_000,
    cachedTokens,
    fileBytes,
    entries = {},
    saysLoadedFor = 0,
  } = options
  const { videoBytes = memoryBytes } = options
  const calls: { path: string; body: Record<string, unknown> }[] = []
  const loaded = new Set<string>()
  const leaving = new Map<string, number>()
  let chats = 0
  let waiting = 0
  let failing = false
  let held: PromiseWithResolvers<void> | null = options.holdLoads === true ? Promise.withResolvers<void>() : null
  const details = cachedTokens === undefined ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } }
  const usage = { prompt_tokens: promptTokens, completion_tokens: 2, total_tokens: promptTokens + 2, ...details }

  /** null: the model is in memory now. */
  const load = async (model: string): Promise<Response | null> => {
    if (!loaded.has(model) && held !== null) {
      waiting++
      await held.promise
      waiting--
    }
    if (!loaded.has(model) && failing) return Response.json({ error: 'out of memory' }, { status: 500 })
    loaded.add(model)
    return null
  }

  const chat = async ({ model, stream }: { readonly model: string; readonly stream?: boolean }) => {
    chats++
    const fault = await load(model)
    if (fault !== null) return fault
    const base = { id: 'chatcmpl-1', created: 0, model }
    if (stream !== true) {
      const message = { role: 'assistant', content: 'two words' }
      return Response.json({
        ...base,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage,
      })
    }
    const chunk = (fields: object) =>
      `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', ...fields })}\n\n`
    const delta = (content: string, finish: string | null) => ({
      choices: [{ index: 0, delta: { content }, finish_reason: finish }],
    })
    const events = [chunk(delta('two ', null)), chunk(delta('words', 'stop')), chunk({ choices: [], usage })]
    return new Response(`${events.join('')}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  }

  /** Without a prompt: the model is loaded, or let go where it is to be kept for no time. */
  const told = async ({ model, keep_alive }: { readonly model: string; readonly keep_alive?: number }) => {
    if (!models.includes(model)) return Response.json({ error: 'model not found' }, { status: 404 })
    const fault = keep_alive === 0 ? null : await load(model)
    if (fault !== null) return fault
    if (keep_alive === 0 && loaded.delete(model)) leaving.set(model, saysLoadedFor)
    const reason = keep_alive === 0 ? 'unload' : 'load'
    return Response.json({ model, response: '', done: true, done_reason: reason })
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/api/version') return Response.json({ version: '0.0.0-test' })
      if (pathname === '/api/tags') {
        const listed = models.map((model) => ({ name: model, model, size: fileBytes, ...entries[model] }))
        return Response.json({ models: listed })
      }
      if (pathname === '/api/ps') {
        const last = [...leaving].filter(([, times]) => times > 0)
        for (const [model, times] of last) leaving.set(model, times - 1)
        const held = new Set([...loaded, ...last.map(([model]) => model)])
        const running = [...held].map((model) => ({ name: model, model, size_vram: videoBytes, size: memoryBytes }))
        return Response.json({ models: running })
      }
      if (request.method !== 'POST') return new Response(null, { status: 404 })
      const body = (await request.json()) as { model: string; keep_alive?: number; stream?: boolean }
      calls.push({ path: pathname, body })
      if (pathname === '/api/generate') return told(body)
      if (pathname === '/v1/chat/completions') return chat(body)
      if (pathname === '/v1/completions') return Response.json({ choices: [{ index: 0, text: 'two words' }], usage })
      if (pathname === '/api/embed') return (await load(body.model)) ?? Response.json({ embeddings: [] })
      if (pathname === '/v1/embeddings') return Response.json({ data: [{ index: 0, embedding: [0.5] }], usage })
      return new Response(null, { status: 404 })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    loaded,
    get waiting() {
      return waiting
    },
    get chats() {
      return chats
    },
    calls,
    finishLoads: () => {
      held?.resolve()
      held = null
    },
    failLoads: () => {
      failing = true
      held?.resolve()
      held = null
    },
    unload: (model) => void loaded.delete(model),
    stop: () => void server.stop(true),
  }
}
