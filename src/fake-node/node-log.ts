import { headers } from '../brand.ts'

/** One chat request as the node saw it. `atMs`, `endedAtMs`: `performance.now()` of this process. */
export interface LoggedRequest {
  readonly serial: number
  readonly atMs: number
  readonly connectionId: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON; the raw text where it is no JSON. */
  readonly body: unknown
  /** `aborted`: the client left first. `cut`: the node closed its port under it. */
  outcome: 'open' | 'finished' | 'aborted' | 'cut'
  endedAtMs: number | null
  headersSent: boolean
  chunksSent: number
}

export interface NodeStats {
  readonly requests: number
  readonly probes: number
  readonly openRequests: number
  readonly openStreams: number
  readonly abortedRequests: number
  readonly abortedStreams: number
  readonly finishedRequests: number
  readonly connections: number
  /** As the gateway named them; `serial-<n>` where a request carried no id. */
  readonly lastRequestIds: readonly string[]
  readonly promptTokens: number
  readonly cachedTokens: number
}

const requestsKeptMax = 1_000
const requestIdsShown = 20

export type RequestListener = (request: LoggedRequest) => void

/** Bounded: the oldest requests are forgotten, the counts are not. */
export class NodeLog {
  readonly requests: LoggedRequest[] = []
  readonly started = new Set<RequestListener>()
  readonly aborted = new Set<RequestListener>()
  readonly ended = new Set<RequestListener>()
  probes = 0
  #total = 0
  #aborted = 0
  #abortedStreams = 0
  #finished = 0
  readonly #open = new Set<LoggedRequest>()

  begin(request: Pick<LoggedRequest, 'connectionId' | 'path' | 'headers' | 'body'>): LoggedRequest {
    this.#total += 1
    const entry: LoggedRequest = {
      ...request,
      serial: this.#total,
      atMs: performance.now(),
      outcome: 'open',
      endedAtMs: null,
      headersSent: false,
      chunksSent: 0,
    }
    this.requests.push(entry)
    if (this.requests.length > requestsKeptMax) this.requests.shift()
    this.#open.add(entry)
    for (const listener of [...this.started]) listener(entry)
    return entry
  }

  end(entry: LoggedRequest, outcome: 'finished' | 'aborted' | 'cut'): void {
    if (!this.#open.delete(entry)) return
    entry.outcome = outcome
    entry.endedAtMs = performance.now()
    if (outcome === 'finished') this.#finished += 1
    if (outcome === 'aborted') {
      this.#aborted += 1
      if (isStream(entry)) this.#abortedStreams += 1
      for (const listener of [...this.aborted]) listener(entry)
    }
    for (const listener of [...this.ended]) listener(entry)
  }

  get openRequests(): number {
    return this.#open.size
  }

  stats(): Omit<NodeStats, 'connections' | 'promptTokens' | 'cachedTokens'> {
    return {
      requests: this.#total,
      probes: this.probes,
      openRequests: this.#open.size,
      openStreams: [...this.#open].filter(isStream).length,
      abortedRequests: this.#aborted,
      abortedStreams: this.#abortedStreams,
      finishedRequests: this.#finished,
      lastRequestIds: this.requests
        .slice(-requestIdsShown)
        .map((entry) => entry.headers[headers.nodeRequestId] ?? `serial-${entry.serial}`),
    }
  }
}

function isStream(entry: LoggedRequest): boolean {
  return typeof entry.body === 'object' && entry.body !== null && 'stream' in entry.body && entry.body.stream === true
}
