import { chat } from '../../actors/operations/chat.ts'
import { completions } from '../../actors/operations/completions.ts'
import { embeddings } from '../../actors/operations/embeddings.ts'
import { messages } from '../../actors/operations/messages.ts'
import type { Operation } from '../../actors/operations/operation.ts'
import { responses } from '../../actors/operations/responses.ts'
import { gatewayRefusal } from '../../client/sealed/sealed-error.ts'
import {
  type NodeJudge,
  type Pins,
  SealedError,
  sealedFetch,
  type TrustedNode,
} from '../../client/sealed/sealed-fetch.ts'
import { Problem } from '../../errors.ts'
import { isLoopback } from '../../host/loopback.ts'
import { foreignAnswer, foreignJson } from '../../protocol/json/foreign-json.ts'
import type { Envelope } from '../../protocol/json/problem-response.ts'
import { sealedOperationPaths } from '../../protocol/wire/inference/sealed.ts'
import { isoTime } from '../../time.ts'
import { clientAnswer } from './client-answer.ts'
import { answerOllama, ollamaPaths, spokenVersion } from './ollama-door.ts'
import { doorHeaders, GatewayUnreachable, refusalOf } from './refusals.ts'
import { answerMixture, asksForMixture } from './sealed-mixture.ts'

export interface SealDoorOptions {
  readonly hostname: string
  /** 0: any free one. */
  readonly port: number
  /** The gateway's URL and the key that is used there, whatever a local program sends. */
  readonly gateway: string
  readonly key: string
  readonly pins: Pins
  readonly padding: boolean
  /** What nodes must show of their machines. Absent: nothing. */
  readonly attest?: NodeJudge
  /** Told which node was asked. */
  readonly onNode?: (node: TrustedNode) => void
}

export interface SealDoor {
  readonly url: string
  readonly port: number
  stop(): Promise<void>
}

/** Rejects with `GatewayUnreachable`, and with the reason of a signal that aborts. */
async function reached(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init)
  } catch (error) {
    init.signal?.throwIfAborted()
    throw new GatewayUnreachable('fetch', { cause: error })
  }
}

const operationAt: ReadonlyMap<string, Operation> = new Map(
  [chat, completions, embeddings, messages, responses].map((operation) => [operation.path, operation as Operation]),
)

const modelsBytesMax = 8 * 1024 * 1024
const bodyBytesMax = 64 * 1024 * 1024
const base = /^\/v1(?:\/api)?(?=\/)/

/** The dialect by which a path is known; null: there is no such path here. */
function envelopeOf(path: string): Envelope | null {
  if (path.startsWith('/api/') && !path.startsWith('/api/v1')) return 'ollama'
  const rest = path.replace(base, '')
  if (rest === path || !(sealedOperationPaths as readonly string[]).includes(rest)) return null
  return rest === '/messages' ? 'anthropic' : 'openai'
}

/** OpenAI's, Anthropic's and Ollama's interface on one's own computer: what comes in goes out sealed (§38). */
export function startSealDoor(options: SealDoorOptions): SealDoor {
  const door = new Door(options)
  const server = Bun.serve({
    hostname: options.hostname,
    port: options.port,
    // A model may be silent for minutes; its client leaves when it likes.
    idleTimeout: 0,
    maxRequestBodySize: bodyBytesMax,
    development: false,
    fetch: (request) => door.answer(request),
  })
  const host = options.hostname.includes(':') ? `[${options.hostname}]` : options.hostname
  const port = server.port ?? options.port
  return { url: `http://${host}:${port}`, port, stop: () => server.stop(true) }
}

class Door {
  private readonly sealed: typeof fetch
  private readonly gateway: string
  private readonly authorization: { readonly authorization: string }

  constructor(private readonly options: SealDoorOptions) {
    const { gateway, key, pins, padding, onNode, attest } = options
    this.gateway = gateway.replace(/\/+$/, '')
    this.authorization = { authorization: `Bearer ${key}` }
    this.sealed = sealedFetch({
      ...{ gateway, trust: pins, padding, fetch: reached },
      ...(onNode === undefined ? {} : { onNode }),
      ...(attest === undefined ? {} : { attest }),
    })
  }

  async answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    const envelope = envelopeOf(pathname) ?? 'openai'
    try {
      this.checkCaller(request)
      return await this.route(pathname, request)
    } catch (error) {
      // The client has left.
      return request.signal.aborted ? new Response(null, { status: 499 }) : refusalOf(error, envelope)
    }
  }

  /** A web page must not use this door: neither from its own origin, nor by a name that leads to this computer. */
  private checkCaller({ headers }: Request): void {
    const host = (headers.get('host') ?? '').replace(/:[0-9]+$/, '').replace(/^\[|\]$/g, '')
    if (headers.has('origin') || !(isLoopback(host) || host === this.options.hostname)) {
      throw new Problem('misdirected_request')
    }
  }

  private async route(path: string, request: Request): Promise<Response> {
    const ollama = ollamaPaths.get(path)
    if (request.method === 'POST' && ollama !== undefined) return answerOllama(this, ollama, request)
    if (request.method === 'GET') {
      if (path === '/api/version') return Response.json({ version: spokenVersion }, { headers: doorHeaders })
      if (path === '/api/tags') return this.tags(request.signal)
      const rest = path.replace(base, '')
      if (rest === '/models' || rest.startsWith('/models/')) return this.passed(path, request)
    }
    if (request.method !== 'POST' || envelopeOf(path) === null) throw new Problem('route_not_found')
    const text = await request.text()
    const mayMix = path.replace(base, '') === chat.path && text.includes('"mixture"')
    if (mayMix && asksForMixture(foreignJson(text))) return answerMixture(this, text, request.signal)
    return this.seal(path, text, request.signal)
  }

  async seal(path: string, body: string, signal: AbortSignal): Promise<Response> {
    const headers = { ...this.authorization, 'content-type': 'application/json' }
    const response = await this.sealed(this.gateway + path, { method: 'POST', headers, body, signal })
    const operation = operationAt.get(path.replace(base, ''))
    if (operation === undefined) throw new Problem('route_not_found')
    return clientAnswer(response, operation, body)
  }

  /** The gateway knows its list of models anyway. */
  private async passed(path: string, { headers: sent, signal }: Request): Promise<Response> {
    const version = sent.get('anthropic-version')
    const headers = { ...this.authorization, ...(version === null ? {} : { 'anthropic-version': version }) }
    const response = await reached(this.gateway + path, { headers, signal })
    const type = response.headers.get('content-type') ?? 'application/json'
    return new Response(response.body, { status: response.status, headers: { ...doorHeaders, 'content-type': type } })
  }

  private async list(signal: AbortSignal): Promise<readonly { readonly id: string; readonly created: number }[]> {
    const response = await reached(`${this.gateway}/v1/models`, { headers: this.authorization, signal })
    const { data, error } = ((await foreignAnswer(response, modelsBytesMax)) ?? {}) as {
      readonly data?: unknown
      readonly error?: { readonly code?: unknown; readonly message?: unknown }
    }
    if (response.status !== 200 || !Array.isArray(data)) {
      const refusal = gatewayRefusal({ code: error?.code, detail: error?.message })
      throw new SealedError('gateway_failed', response.status, refusal)
    }
    return data.flatMap(({ id, created }: { readonly id?: unknown; readonly created?: unknown }) =>
      typeof id === 'string' ? [{ id, created: typeof created === 'number' ? created : 0 }] : [],
    )
  }

  async models(signal: AbortSignal): Promise<readonly string[]> {
    return (await this.list(signal)).map(({ id }) => id)
  }

  private async tags(signal: AbortSignal): Promise<Response> {
    const models = (await this.list(signal)).map(({ id, created }) => ({
      ...{ name: id, model: id, modified_at: isoTime(created * 1_000), size: 0, digest: '' },
      details: { format: '', family: '', families: [], parameter_size: '', quantization_level: '' },
    }))
    return Response.json({ models }, { headers: doorHeaders })
  }
}
