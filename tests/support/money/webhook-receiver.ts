import { postPinned } from '../../../src/actors/jobs/pinned-post.ts'
import type { WebhookWorld } from '../../../src/actors/jobs/webhooks.ts'
import { makeCertificate } from '../clients/certificate.ts'

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type Answer = (request: Received) => Response | Promise<Response>

export interface WebhookReceiver {
  readonly port: number
  /** Its certificate is for this name alone. */
  readonly hostname: string
  /** Its certificate, PEM: made for this run and trusted by nobody else. */
  readonly ca: string
  readonly received: readonly Received[]
  /** For the next requests in order; the last one stays. */
  answer(...answers: Answer[]): void
  stop(): Promise<void>
}

const hostname = 'hooks.example.com'

/** A customer's receiver: a real TLS server on loopback. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const received: Received[] = []
  let answers: Answer[] = [() => new Response(null, { status: 204 })]
  const { cert, key } = makeCertificate(hostname)
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    tls: { cert, key },
    fetch: async (request) => {
      const url = new URL(request.url)
      const got = {
        path: url.pathname + url.search,
        headers: Object.fromEntries(request.headers),
        body: await request.text(),
      }
      received.push(got)
      const answer = answers.length > 1 ? answers.shift() : answers[0]
      return answer?.(got) ?? new Response(null, { status: 500 })
    },
  })
  return {
    port: server.port ?? 0,
    hostname,
    ca: cert,
    received,
    answer: (...more) => {
      answers = more
    },
    stop: () => server.stop(true),
  }
}

export interface TestWorld extends WebhookWorld {
  /** Unix ms; moves only when told. */
  clock: number
  /** What every name resolves to. */
  addresses: readonly string[] | Error
  /** Where the gateway connected to, before the test led it to loopback. */
  readonly connected: string[]
  timeoutMs: number
}

/** The real wire, led to the receiver; the clock, the names and the dice are the test's. */
export function testWorld(receiver: WebhookReceiver): TestWorld {
  const { ca } = receiver
  const world: TestWorld = {
    clock: Date.now(),
    addresses: ['93.184.215.14'],
    connected: [],
    timeoutMs: 15_000,
    now: () => world.clock,
    random: () => 0.5,
    resolve: async () => {
      if (world.addresses instanceof Error) throw world.addresses
      return world.addresses
    },
    post: (request) => {
      world.connected.push(`${request.address}:${request.port}`)
      const timeoutMs = Math.min(request.timeoutMs, world.timeoutMs)
      return postPinned({ ...request, address: '127.0.0.1', port: receiver.port, ca, timeoutMs })
    },
  }
  return world
}
