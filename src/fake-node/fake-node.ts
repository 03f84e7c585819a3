import { type Answer, defaultAnswer, readChatRequest } from './answer.ts'
import { errorBody, jsonHeaders } from './bodies.ts'
import { answerChat } from './chat-answer.ts'
import { answerControl, controlPaths, parsedBody } from './control.ts'
import { createFaultSet, type Fault, type FaultOf } from './faults.ts'
import { type Exchange, type HttpListener, listenHttp } from './http-connection.ts'
import { createKvCache, type KvCache, type KvCacheOptions } from './kv-cache.ts'
import { type LoggedRequest, NodeLog, type NodeStats, type RequestListener } from './node-log.ts'
import { answerProbe, type Installed, type Speaks } from './probe-answers.ts'

export interface FakeNodeOptions {
  readonly hostname?: string
  /** 0: any free one. */
  readonly port?: number
  /** Stands in front of every piece of text, so that a test sees who answered. Default `fake-`. */
  readonly name?: string
  readonly models?: readonly string[]
  readonly contextLength?: number | null
  readonly speaks?: Speaks
  readonly slots?: number
  /** Where set, chat needs `authorization: Bearer <apiKey>`. */
  readonly apiKey?: string
  readonly answer?: Partial<Answer>
  readonly faults?: readonly Fault[]
  readonly kv?: KvCacheOptions
}

/** A node that speaks the OpenAI protocol and fails on purpose. */
export interface FakeNode {
  readonly name: string
  readonly hostname: string
  readonly port: number
  /** `http://<hostname>:<port>`, no slash at the end. */
  readonly url: string
  readonly faults: readonly Fault[]
  /** Takes the place of all faults before it; `refuse` closes the port before this returns. */
  setFaults(...faults: readonly Fault[]): void
  clearFaults(): void
  setAnswer(change: Partial<Answer>): void
  setModels(models: readonly string[]): void
  stats(): NodeStats
  /** The last 1,000 chat requests, oldest first. */
  readonly requests: readonly LoggedRequest[]
  /** Each returns the function that takes the listener away again. */
  onRequest(listener: RequestListener): () => void
  onAbort(listener: RequestListener): () => void
  /** The next chat request that arrives, aborts (its client left) or ends, counted from this call. */
  nextRequest(): Promise<LoggedRequest>
  nextAbort(): Promise<LoggedRequest>
  nextEnd(): Promise<LoggedRequest>
  /** Resolves when no chat request is open. */
  idle(): Promise<void>
  /** All that waits at this moment goes on at once: a first token, the next piece of a stream. */
  release(): void
  stop(): void
}

/** Listens at once. Control over HTTP: `GET|POST|DELETE /faults`, `GET|POST /answer`, `GET /stats`. */
export function startFakeNode(options: FakeNodeOptions = {}): FakeNode {
  return new RunningNode(options)
}

class RunningNode implements FakeNode {
  readonly name: string
  readonly hostname: string
  readonly port: number
  readonly #options: FakeNodeOptions
  readonly #faults = createFaultSet()
  readonly #log = new NodeLog()
  readonly #kv: KvCache | null
  readonly #pauses = new Set<() => void>()
  #answer: Answer
  #models: readonly string[]
  #listener: HttpListener | null
  #reopening: ReturnType<typeof setTimeout> | undefined

  constructor(options: FakeNodeOptions) {
    this.#options = options
    this.name = options.name ?? 'fake-'
    this.hostname = options.hostname ?? '127.0.0.1'
    this.#models = options.models ?? ['fake-model']
    this.#answer = { ...defaultAnswer(this.name), ...options.answer }
    this.#kv = options.kv === undefined ? null : createKvCache(options.kv)
    this.#listener = this.#listen(options.port ?? 0)
    this.port = this.#listener.port
    this.setFaults(...(options.faults ?? []))
  }

  get url(): string {
    return `http://${this.hostname.includes(':') ? `[${this.hostname}]` : this.hostname}:${this.port}`
  }

  get faults(): readonly Fault[] {
    return this.#faults.list
  }

  get requests(): readonly LoggedRequest[] {
    return this.#log.requests
  }

  setFaults(...faults: readonly Fault[]): void {
    this.#apply(faults)
  }

  /** `spare`: the connection that asked for it still gets its answer. */
  #apply(faults: readonly Fault[], spare?: number): void {
    this.#faults.replace(faults)
    clearTimeout(this.#reopening)
    const refusal = faults.find((entry): entry is FaultOf<'refuse'> => entry.kind === 'refuse')
    if (refusal === undefined) {
      this.#listener ??= this.#listen(this.port)
      return
    }
    this.#listener?.close({ finishOpen: refusal.keepOpen === true, ...(spare === undefined ? {} : { spare }) })
    this.#listener = null
    if (refusal.ms === undefined) return
    this.#reopening = setTimeout(() => this.setFaults(...faults.filter((entry) => entry !== refusal)), refusal.ms)
  }

  clearFaults(): void {
    this.setFaults()
  }

  setAnswer(change: Partial<Answer>): void {
    this.#answer = { ...this.#answer, ...change }
  }

  setModels(models: readonly string[]): void {
    this.#models = models
  }

  stats(): NodeStats {
    return {
      ...this.#log.stats(),
      connections: this.#listener?.connections ?? 0,
      promptTokens: this.#kv?.promptTokens ?? 0,
      cachedTokens: this.#kv?.cachedTokens ?? 0,
    }
  }

  onRequest(listener: RequestListener): () => void {
    this.#log.started.add(listener)
    return () => void this.#log.started.delete(listener)
  }

  onAbort(listener: RequestListener): () => void {
    this.#log.aborted.add(listener)
    return () => void this.#log.aborted.delete(listener)
  }

  nextRequest(): Promise<LoggedRequest> {
    return once(this.#log.started)
  }

  nextAbort(): Promise<LoggedRequest> {
    return once(this.#log.aborted)
  }

  nextEnd(): Promise<LoggedRequest> {
    return once(this.#log.ended)
  }

  async idle(): Promise<void> {
    while (this.#log.openRequests > 0) await this.nextEnd()
  }

  release(): void {
    for (const done of [...this.#pauses]) done()
  }

  stop(): void {
    clearTimeout(this.#reopening)
    this.#listener?.close({ finishOpen: false })
    this.#listener = null
    this.release()
  }

  #listen(port: number): HttpListener {
    return listenHttp({ hostname: this.hostname, port }, (exchange) => this.#handle(exchange))
  }

  #handle(exchange: Exchange): void {
    const { method, path } = exchange.request
    if (method === 'POST' && path === '/v1/chat/completions') this.#chat(exchange)
    else if (controlPaths.includes(path)) this.#control(exchange)
    else this.#probe(exchange)
  }

  #control(exchange: Exchange): void {
    answerControl(exchange, {
      stats: () => this.stats(),
      faults: () => this.faults,
      applyFaults: (faults) => this.#apply(faults, exchange.connectionId),
      changeAnswer: (change) => {
        this.setAnswer(change)
        return this.#answer
      },
    })
  }

  #probe(exchange: Exchange): void {
    const installed: Installed = {
      speaks: this.#options.speaks ?? 'openai',
      models: this.#models,
      contextLength: this.#options.contextLength === undefined ? 8192 : this.#options.contextLength,
      slots: this.#options.slots ?? 4,
      busy: this.#log.openRequests,
    }
    this.#log.probes += 1
    const faults = this.#faults.suffer('probe', null)
    const slow = faults.get('slowHeaders')
    const answer = () => {
      if (!answerProbe(exchange, installed, faults)) exchange.respond(404, jsonHeaders, errorBody(404, 'no such path'))
    }
    if (slow) void this.#pause(exchange, slow.ms).then((open) => open && answer())
    else answer()
  }

  #chat(exchange: Exchange): void {
    const { path, headers } = exchange.request
    const body = parsedBody(exchange.request.body)
    const request = readChatRequest(body)
    const entry = this.#log.begin({ connectionId: exchange.connectionId, path, headers, body })
    exchange.onAbort((by) => {
      entry.headersSent = exchange.headersSent
      this.#log.end(entry, by === 'client' ? 'aborted' : 'cut')
    })
    const finish = () => {
      entry.headersSent = exchange.headersSent
      if (exchange.closed) this.#log.end(entry, 'finished')
    }
    if (this.#options.apiKey !== undefined && headers.authorization !== `Bearer ${this.#options.apiKey}`) {
      exchange.respond(401, jsonHeaders, errorBody(401, 'wrong api key'))
      finish()
      return
    }
    if (request === null) {
      exchange.respond(400, jsonHeaders, errorBody(400, 'not a chat request'))
      finish()
      return
    }
    const call = {
      exchange,
      request,
      answer: this.#answer,
      faults: this.#faults.suffer('chat', request.model),
      prefillMs: this.#kv?.prefillMs(request) ?? 0,
      serial: entry.serial,
      pause: (ms: number) => this.#pause(exchange, ms),
      sent: () => {
        entry.chunksSent += 1
      },
    }
    void answerChat(call).then(finish)
  }

  /** Ends early, and its timer with it, when the client leaves or the node stops. */
  #pause(exchange: Exchange, ms: number): Promise<boolean> {
    if (ms <= 0 || exchange.closed) return Promise.resolve(!exchange.closed)
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        forget()
        this.#pauses.delete(done)
        resolve(!exchange.closed)
      }
      const timer = setTimeout(done, ms)
      this.#pauses.add(done)
      const forget = exchange.onAbort(done)
    })
  }
}

function once(listeners: Set<RequestListener>): Promise<LoggedRequest> {
  return new Promise((resolve) => {
    const listener: RequestListener = (entry) => {
      listeners.delete(listener)
      resolve(entry)
    }
    listeners.add(listener)
  })
}
