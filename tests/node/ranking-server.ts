import { type Exchange, listenHttp } from '../../src/fake-node/http-connection.ts'

/** One ranking, answered by the test. */
export interface RankingRequest {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** The agent closed the connection before the answer was complete. */
  readonly gone: Promise<void>
  respond(status: number, body: unknown, headers?: Readonly<Record<string, string>>): void
  /** Head and a part of the body, and then nothing. */
  stall(text: string): void
  cut(): void
}

export type RankingScript = (request: RankingRequest) => void

export interface RankingServer {
  readonly url: string
  /** Every ranking that was asked for. */
  readonly requests: readonly RankingRequest[]
  script: RankingScript
  /** The status part of its answers: `down` is 500 on every GET. */
  down: boolean
  stop(): void
}

interface Fixture {
  readonly answers: Readonly<Record<string, { status: number; body?: unknown; text?: string }>>
}

const json = { 'content-type': 'application/json' }

function requestOf(exchange: Exchange): RankingRequest {
  return {
    path: exchange.request.path,
    body: JSON.parse(exchange.request.body) as Record<string, unknown>,
    gone: new Promise((resolve) => {
      exchange.onAbort(() => resolve())
    }),
    respond: (status, body, headers = {}) =>
      exchange.respond(status, { ...json, ...headers }, typeof body === 'string' ? body : JSON.stringify(body)),
    stall(text) {
      exchange.head(200, json)
      void exchange.write(text)
    },
    cut: () => exchange.cut('reset'),
  }
}

/** A model server that says what it is by the recorded answers `fixture`, and ranks as the test says. */
export async function startRankingServer(fixture: string, script: RankingScript): Promise<RankingServer> {
  const { answers }: Fixture = await Bun.file(`${import.meta.dir}/../runtimes/fixtures/${fixture}.json`).json()
  const requests: RankingRequest[] = []
  const listener = listenHttp({ hostname: '127.0.0.1', port: 0 }, (exchange) => {
    const { method, path } = exchange.request
    if (method === 'POST') {
      const request = requestOf(exchange)
      requests.push(request)
      return server.script(request)
    }
    const answer = answers[path]
    if (server.down) return exchange.respond(500, json, '{}')
    if (answer === undefined) return exchange.respond(404, json, '{"error":"not found"}')
    exchange.respond(answer.status, json, answer.text ?? JSON.stringify(answer.body))
  })
  const server: RankingServer = {
    url: `http://127.0.0.1:${listener.port}`,
    requests,
    script,
    down: false,
    stop: () => listener.close({ finishOpen: false }),
  }
  return server
}
