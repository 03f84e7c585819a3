import { readChatRequest } from '../src/fake-node/answer.ts'
import { type PlayedServer, played, type Signs } from './played-server.ts'
import { type HeldModels, holdModels, type SimulatedMemory } from './simulated-memory.ts'

/** Of a real model server, in its own time. */
export interface SimulatedNodeOptions {
  readonly model: string
  /** Answers that are written at the same time; more wait in line. */
  readonly slots: number
  /** Tokens per second. */
  readonly prefill: number
  readonly decode: number
  readonly cacheTokens: number
  /** Time runs so many times as fast. */
  readonly speed: number
  /** The kind of server whose signs it shows; absent: llama.cpp. */
  readonly plays?: PlayedServer
  /** It is a llama.cpp that offers several models, of which some must be loaded first; absent: `model` alone, which is always there. */
  readonly memory?: SimulatedMemory
}

export interface SimulatedNodeStats {
  readonly requests: number
  readonly promptTokens: number
  readonly cachedTokens: number
  /** Of each request, from its arrival to its first token, in the node's own time; what this computer adds is not in it. */
  readonly firstTokensS: readonly number[]
}

export interface SimulatedNode {
  readonly url: string
  stats(): SimulatedNodeStats
  stop(): void
}

/** A token is four letters. */
export const lettersPerToken = 4
const blockTokens = 64
const blockLetters = blockTokens * lettersPerToken
/** The least that a first token takes. */
const leastS = 0.01

type ChatRequest = NonNullable<ReturnType<typeof readChatRequest>>

/** The blocks of a prompt of one model, each with the hash of all before it. */
function blocksOf({ model, messages }: Pick<ChatRequest, 'model' | 'messages'>): readonly bigint[] {
  const text = messages.map((message) => `${message.role}\0${message.text}\0`).join('')
  let hash = Bun.hash.wyhash(model)
  return Array.from({ length: Math.floor(text.length / blockLetters) }, (_, at) => {
    hash = Bun.hash.wyhash(text.slice(at * blockLetters, (at + 1) * blockLetters), hash)
    return hash
  })
}

/** The last used blocks. */
function promptCache(capacity: number) {
  const held = new Map<bigint, true>()
  return {
    /** Leading blocks that are here. */
    matched: (blocks: readonly bigint[]) => {
      const missing = blocks.findIndex((block) => !held.has(block))
      return missing === -1 ? blocks.length : missing
    },
    touch: (blocks: readonly bigint[]) => {
      for (const block of blocks.toReversed()) {
        held.delete(block)
        held.set(block, true)
      }
      for (const oldest of held.keys()) {
        if (held.size <= capacity) break
        held.delete(oldest)
      }
    },
  }
}

/**
 * A model server that costs what a real one costs where placement is concerned: a bounded number of slots, one reader of prompts,
 * and a cache of their blocks. It tells what the server that it plays tells. The machine of `tests/machines/placement/fleet`, over HTTP.
 */
export function startSimulatedNode(options: SimulatedNodeOptions): SimulatedNode {
  const { slots, prefill, decode, speed, model, cacheTokens, plays = 'llama.cpp' } = options
  const { tellsCached, signs } = played[plays]
  const cache = promptCache(cacheTokens / blockTokens)
  const places = line(slots)
  const held = options.memory === undefined ? null : holdModels(options.memory, speed)
  const realMs = (seconds: number) => (seconds * 1_000) / speed
  const until = (atMs: number) => Bun.sleep(Math.max(0, atMs - performance.now()))
  const counted = { requests: 0, promptTokens: 0, cachedTokens: 0, firstTokensS: [] as number[] }
  let readUntilMs = 0

  /** Its turn has come: when its first token will be there. */
  const read = (request: ChatRequest, arrivedMs: number) => {
    const blocks = blocksOf(request)
    const cached = cache.matched(blocks) * blockTokens
    const unread = blocks.length * blockTokens - cached
    const firstMs = Math.max(performance.now(), readUntilMs) + realMs(unread / prefill + leastS)
    readUntilMs = firstMs
    cache.touch(blocks)
    counted.promptTokens += blocks.length * blockTokens
    counted.cachedTokens += cached
    counted.firstTokensS.push(((firstMs - arrivedMs) * speed) / 1_000)
    return { firstMs, cached, tokens: blocks.length * blockTokens }
  }

  const answer = async (request: ChatRequest) => {
    const arrivedMs = performance.now()
    const serial = ++counted.requests
    await held?.enter(request.model)
    await places.enter()
    const { firstMs, cached, tokens } = read(request, arrivedMs)
    await until(firstMs)
    const written = request.maxTokens ?? 1
    const text = `${serial}.${request.messages.length}`.padEnd(lettersPerToken * written, 'x')
    const base = { id: `chatcmpl-${serial}`, object: 'chat.completion.chunk', created: 0, model }
    const event = (fields: object) => `data: ${JSON.stringify({ ...base, ...fields })}\n\n`
    const usage = {
      prompt_tokens: tokens,
      completion_tokens: written,
      total_tokens: tokens + written,
      ...(tellsCached ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
    }
    const write = async (out: ReadableStreamDefaultController<string>) => {
      out.enqueue(event({ choices: [choice({ content: text.slice(0, lettersPerToken) })] }))
      await until(firstMs + realMs(written / decode))
      cache.touch(blocksOf({ ...request, messages: [...request.messages, { role: 'assistant', text }] }))
      out.enqueue(event({ choices: [choice({ content: text.slice(lettersPerToken) }, 'stop')] }))
      out.enqueue(event({ choices: [], usage }))
      out.enqueue('data: [DONE]\n\n')
      out.close()
    }
    // A client that leaves closes the stream: writing into it then throws, and the slot is free again.
    const body = new ReadableStream<string>({
      start: (out) =>
        void write(out)
          .catch(() => {})
          .finally(() => {
            places.leave()
            held?.leave(request.model)
          }),
    })
    return new Response(body as unknown as ReadableStream<Uint8Array>, {
      headers: { 'content-type': 'text/event-stream' },
    })
  }

  const told = signs({ model, slots, cacheTokens, running: () => places.taken, waiting: () => places.waiting })
  const probes: Signs = held === null ? told : { ...told, '/v1/models': () => routed(held, cacheTokens / slots) }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      const probe = probes[pathname]
      if (probe !== undefined && request.method === 'GET') return answered(probe())
      if (pathname !== '/v1/chat/completions') return new Response(null, { status: 404 })
      const chat = readChatRequest(await request.json())
      return chat === null ? new Response(null, { status: 400 }) : answer(chat)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    stats: () => ({ ...counted, firstTokensS: [...counted.firstTokensS] }),
    stop: () => void server.stop(true),
  }
}

function answered(sign: object | string | number): Response {
  if (typeof sign === 'number') return new Response(null, { status: sign })
  return typeof sign === 'string' ? new Response(sign) : Response.json(sign)
}

/** As llama.cpp's router lists its models. */
const routed = ({ models, status }: HeldModels, contextTokens: number) => ({
  object: 'list',
  data: models.map((id) => ({
    ...{ id, object: 'model', created: 0, owned_by: 'llamacpp', meta: { n_ctx_train: Math.floor(contextTokens) } },
    status: { value: status(id) },
  })),
})

const choice = (delta: object, finish: string | null = null) => ({ index: 0, delta, finish_reason: finish })

/** First come, first served. */
function line(places: number) {
  const waiting: (() => void)[] = []
  let free = places
  return {
    get taken() {
      return places - free
    },
    get waiting() {
      return waiting.length
    },
    enter: (): Promise<void> => {
      if (free > 0) {
        free--
        return Promise.resolve()
      }
      return new Promise((turn) => waiting.push(turn))
    },
    leave: (): void => {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    },
  }
}
