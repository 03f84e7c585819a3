import { readChatRequest } from '../src/fake-node/answer.ts'
import { createKvCache, type KvCacheOptions } from '../src/fake-node/kv-cache.ts'

export interface SimulatedNodeOptions {
  readonly model: string
  /** Answers that are written at the same time; more wait in line. */
  readonly slots: number
  readonly kv: KvCacheOptions
  /** Of each of the `replyWords` words of an answer. */
  readonly msPerWord: number
  readonly replyWords: number
}

export interface SimulatedNodeStats {
  readonly requests: number
  readonly promptTokens: number
  readonly cachedTokens: number
  /** For how long it was reading prompts. */
  readonly prefillMs: number
}

export interface SimulatedNode {
  readonly url: string
  stats(): SimulatedNodeStats
  stop(): void
}

/** Words in one chunk of an answer. */
const chunkWords = 10

/**
 * A model server that costs what a real one costs where placement is concerned: a bounded number of slots, one prompt
 * read at a time, and a prompt cache, so that a prefix it has seen costs next to nothing.
 */
export function startSimulatedNode(options: SimulatedNodeOptions): SimulatedNode {
  const kv = createKvCache(options.kv)
  const slots = line(options.slots)
  const prefill = line(1)
  let requests = 0
  let prefillMs = 0

  /** Waits for its turns; then the first word is ready. */
  const read = async (request: NonNullable<ReturnType<typeof readChatRequest>>) => {
    await slots.enter()
    await prefill.enter()
    const ms = kv.prefillMs(request)
    await Bun.sleep(ms)
    prefillMs += ms
    prefill.leave()
  }
  const answer = async (request: NonNullable<ReturnType<typeof readChatRequest>>) => {
    requests++
    const serial = requests
    await read(request)
    const chunks = Math.ceil(options.replyWords / chunkWords)
    const event = (fields: object) =>
      `data: ${JSON.stringify({ id: `chatcmpl-${serial}`, object: 'chat.completion.chunk', created: 0, model: request.model, ...fields })}\n\n`
    const write = async (out: ReadableStreamDefaultController<string>) => {
      for (let at = 0; at < chunks; at++) {
        out.enqueue(event({ choices: [choice({ content: `word${serial} `.repeat(chunkWords) })] }))
        await Bun.sleep(options.msPerWord * chunkWords)
      }
      out.enqueue(event({ choices: [choice({}, 'stop')] }))
      out.enqueue('data: [DONE]\n\n')
      out.close()
    }
    // A client that leaves closes the stream: writing into it then throws, and the slot is free again.
    const body = new ReadableStream<string>({
      start: (out) =>
        void write(out)
          .catch(() => {})
          .finally(slots.leave),
    })
    return new Response(body as unknown as ReadableStream<Uint8Array>, {
      headers: { 'content-type': 'text/event-stream' },
    })
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/v1/models') return Response.json({ object: 'list', data: [listed(options.model)] })
      if (pathname !== '/v1/chat/completions') return new Response(null, { status: 404 })
      const chat = readChatRequest(await request.json())
      return chat === null ? new Response(null, { status: 400 }) : answer(chat)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    stats: () => ({ requests, promptTokens: kv.promptTokens, cachedTokens: kv.cachedTokens, prefillMs }),
    stop: () => void server.stop(true),
  }
}

const listed = (id: string) => ({ id, object: 'model', created: 0, owned_by: 'bench' })
const choice = (delta: object, finish: string | null = null) => ({ index: 0, delta, finish_reason: finish })

/** First come, first served. */
function line(places: number): { enter(): Promise<void>; leave(): void } {
  const waiting: (() => void)[] = []
  let free = places
  return {
    enter: () => {
      if (free > 0) {
        free--
        return Promise.resolve()
      }
      return new Promise((turn) => waiting.push(turn))
    },
    leave: () => {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    },
  }
}
