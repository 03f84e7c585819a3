import type { CacheHeld } from '../../runtimes/runtime.ts'
import type { CacheCount } from './cached-blocks.ts'
import { KvEvents } from './kv-events.ts'

/** Where a server, or one rank of it, publishes the events of its cache: ports of its computer. */
export interface KvEndpoints {
  readonly port: number
  /** Where it sends batches again. Absent: it does not. */
  readonly replay_port?: number
}

/** The most ranks of one server whose events are read. */
export const kvEndpointsMax = 16

/** What is in the caches of one server, all its ranks together. */
export class ReportedCaches {
  private readonly ranks: readonly KvEvents[]

  /** `url`: the server's. */
  constructor(url: string, endpoints: readonly KvEndpoints[]) {
    this.ranks = endpoints.map(({ port, replay_port: replayPort }) => {
      const hostname = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
      const replay = replayPort === undefined ? null : { hostname, port: replayPort }
      return new KvEvents({ events: { hostname, port }, replay })
    })
  }

  /** Of one model: an adapter has blocks of its own. undefined: no events arrive, or some are missing. */
  of(modelId: string): CacheHeld | undefined {
    const counts = this.ranks.map(({ blocks }) => blocks.count())
    const known = counts.filter((count): count is CacheCount => count !== null)
    if (known.length === 0 || known.length < counts.length) return undefined
    const tokensIn = ({ tokens }: CacheCount) => tokens.get(modelId) ?? tokens.get('') ?? 0
    return { tokens: known.reduce((sum, count) => sum + tokensIn(count), 0), full: known.some(({ full }) => full) }
  }

  stop(): void {
    for (const one of this.ranks) one.stop()
  }
}
