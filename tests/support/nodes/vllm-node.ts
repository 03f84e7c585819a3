/**
 * A vLLM with sleep mode, by its published interface (`vllm/entrypoints/serve/sleep/api_router.py` of 0.14): `POST /sleep?level=`,
 * `POST /wake_up`, `GET /is_sleeping`, mounted only where it was started for development. An engine that sleeps computes nothing.
 */
export interface VllmNode {
  readonly url: string
  readonly sleeping: boolean
  /** What it was told, in order, and chats that met a sleeping engine. */
  readonly told: readonly string[]
  readonly lost: number
  readonly chats: number
  /** Its engine can no longer be woken. */
  breakWaking(): void
  stop(): void
}

export interface VllmOptions {
  readonly model: string
  /** Absent: it was started without sleep mode. */
  readonly wakeMs?: number
}

export function startVllmNode({ model, wakeMs }: VllmOptions): VllmNode {
  let sleeping = false
  let broken = false
  let lost = 0
  let chats = 0
  const told: string[] = []
  const answer = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url)
    const post = request.method === 'POST'
    if (pathname === '/health') return new Response('')
    if (pathname === '/version') return Response.json({ version: '0.14.0' })
    if (pathname === '/v1/models') {
      return Response.json({
        object: 'list',
        data: [{ id: model, object: 'model', owned_by: 'vllm', max_model_len: 4_096 }],
      })
    }
    if (wakeMs !== undefined && pathname === '/is_sleeping' && !post) return Response.json({ is_sleeping: sleeping })
    if (wakeMs !== undefined && pathname === '/sleep' && post) {
      told.push(`sleep ${searchParams.get('level')}`)
      sleeping = true
      return new Response('')
    }
    if (wakeMs !== undefined && pathname === '/wake_up' && post) {
      told.push('wake_up')
      if (broken) return new Response('', { status: 500 })
      await Bun.sleep(wakeMs)
      sleeping = false
      return new Response('')
    }
    if (pathname === '/v1/chat/completions') return post ? chat() : new Response('', { status: 405 })
    return Response.json({ detail: 'Not Found' }, { status: 404 })
  }
  const chat = (): Response => {
    if (sleeping) {
      lost++
      return Response.json({ error: { message: 'engine is asleep' } }, { status: 500 })
    }
    chats++
    const message = { role: 'assistant', content: 'two words' }
    return Response.json({
      ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 0, model },
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    })
  }
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
  return {
    url: `http://127.0.0.1:${server.port}`,
    get sleeping() {
      return sleeping
    },
    told,
    get lost() {
      return lost
    },
    get chats() {
      return chats
    },
    breakWaking: () => {
      broken = true
    },
    stop: () => void server.stop(true),
  }
}
