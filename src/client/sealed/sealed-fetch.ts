import { bytesToHex } from '@noble/hashes/utils.js'
import { headers as names } from '../../brand.ts'
import { foreignAnswer, foreignJson } from '../../protocol/json/foreign-json.ts'
import { encapsulatedKeyHeader, keyMismatchType, responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { framed } from '../../protocol/sealed/frames.ts'
import { sealBody } from '../../protocol/sealed/hpke.ts'
import { paddedJson } from '../../protocol/sealed/padding.ts'
import { type SealedNode, sealedNodesPath, sealedOperationPaths } from '../../protocol/wire/inference/sealed.ts'
import { AttestedNodes, type NodeJudge, newNonce } from './attested-nodes.ts'
import { openAnswer } from './opened-answer.ts'
import { SealedError } from './sealed-error.ts'
import { askNodes, type Pins, type TrustedNode, trustedNodes } from './sealed-nodes.ts'

export type { NodeJudge } from './attested-nodes.ts'
export { SealedError, type SealedFault } from './sealed-error.ts'
export type { Pins, TrustedNode } from './sealed-nodes.ts'

/**
 * A `fetch` that seals: for `new OpenAI({ fetch: sealedFetch({ … }) })`, in Bun, Node from 20 on, and browsers. The gateway that
 * relays sees the model, the node, sizes and times, and nothing of prompt and answer.
 */
export interface SealedFetchOptions {
  /** The gateway's URL, without `/v1`. */
  readonly gateway: string
  /** Fingerprints of the nodes that you trust, `SHA256:…` as each node prints it; or what remembers them. */
  readonly trust: readonly string[] | Pins
  /** Hides the exact length of request and answer. The default is true. */
  readonly padding?: boolean
  /** What a node must show of its machine before anything is sealed for it. Absent: nothing. */
  readonly attest?: NodeJudge
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** Told which node was asked, before it is. */
  readonly onNode?: (node: TrustedNode) => void
  /** Unix ms. */
  readonly now?: () => number
}

/** Nothing else of a request is sent in the clear. */
const passedHeaders = ['authorization', 'x-api-key', names.session] as const
/** Another node may do better, and this one has done nothing yet. */
const isElsewhere = (status: number) => status === 429 || status === 502 || status === 503

/** How long a gateway's list of nodes is used again, ms, and for how many models and keys. */
const nodesKeptMs = 10_000
const listsMax = 64
/** While one node can answer, the others are asked for their models at this interval, ms. */
const judgedLaterMs = 60_000
const evidenceMsMax = 30_000

interface Sealable {
  readonly path: string
  readonly model: string
  readonly maxTokens: number | null
  readonly body: Readonly<Record<string, unknown>>
}

/** Which nodes are asked for: `key` is the same for the same question of the same caller. */
interface Question {
  readonly key: string
  readonly model: string
  readonly headers: Headers
  readonly nowMs: number
}

export function sealedFetch(options: SealedFetchOptions): typeof fetch {
  const sealing = new Sealing(options)
  const run = (input: string | URL | Request, init?: RequestInit) => sealing.fetch(new Request(input, init))
  return run as typeof fetch
}

class Sealing {
  private readonly gateway: string
  private readonly pins: Pins
  private readonly attested: AttestedNodes | null
  /** Newest last. */
  private readonly lists = new Map<string, { readonly nodes: readonly SealedNode[]; readonly atMs: number }>()
  private judgedLaterAtMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: SealedFetchOptions) {
    const { trust, attest } = options
    this.gateway = options.gateway.replace(/\/+$/, '').replace(/\/v1(?:\/api)?$/, '')
    this.attested = attest === undefined ? null : new AttestedNodes(attest)
    this.pins = 'trusts' in trust ? trust : { trusts: (_, fingerprint) => trust.includes(fingerprint) }
  }

  async fetch(request: Request): Promise<Response> {
    const asked = await sealable(request)
    const headers = new Headers()
    for (const name of passedHeaders) {
      const value = request.headers.get(name)
      if (value !== null) headers.set(name, value)
    }
    for (let refreshed = false; ; refreshed = true) {
      const nodes = await this.nodes(asked.model, headers, request.signal, refreshed)
      const response = await this.firstOf(nodes, asked, headers, request.signal)
      if (response !== 'key_mismatch') return response
      // The keys have changed since they were asked for. Twice in a row they have not.
      if (refreshed) throw new SealedError('no_key_in_use')
    }
  }

  private send(url: string, init: RequestInit): Promise<Response> {
    return (this.options.fetch ?? fetch)(url, { ...init, cache: 'no-store', redirect: 'error' })
  }

  /** Those that are trusted now, of a list that is not old. `anew`: the gateway is asked in any case. */
  private async nodes(
    model: string,
    headers: Headers,
    signal: AbortSignal,
    anew: boolean,
  ): Promise<readonly TrustedNode[]> {
    const nowMs = (this.options.now ?? Date.now)()
    const key = JSON.stringify([model, headers.get('authorization'), headers.get('x-api-key')])
    const question: Question = { key, model, headers, nowMs }
    const kept = this.lists.get(key)
    const isNew = anew || kept === undefined || nowMs - kept.atMs >= nodesKeptMs
    const nodes = isNew ? await this.list(question, signal) : kept.nodes
    const trusted = trustedNodes(nodes, this.pins, nowMs)
    const { attested } = this
    return attested === null ? trusted : this.attestedOf(attested, trusted, question, signal)
  }

  /** Throws `not_attested` where none is good. */
  private async attestedOf(
    attested: AttestedNodes,
    trusted: readonly TrustedNode[],
    question: Question,
    signal: AbortSignal,
  ): Promise<readonly TrustedNode[]> {
    const { nowMs } = question
    const good = attested.good(trusted, nowMs)
    const isOpen = attested.unknown(trusted, nowMs).length > 0
    if (good.length > 0) {
      if (isOpen) this.judgeLater(attested, question)
      return good
    }
    const judged = isOpen ? await this.judged(attested, question, signal) : good
    if (judged.length === 0) throw new SealedError('not_attested')
    return judged
  }

  /** The good ones of a list that is asked for anew, with the evidence of each node. */
  private async judged(
    attested: AttestedNodes,
    question: Question,
    signal: AbortSignal,
  ): Promise<readonly TrustedNode[]> {
    const { nowMs } = question
    const nonce = newNonce()
    const carried = await this.list(question, signal, nonce)
    const trusted = trustedNodes(carried, this.pins, nowMs)
    await attested.judged(trusted, carried, nonce, nowMs)
    return attested.good(trusted, nowMs)
  }

  /** A node that shows nothing must not hold up what another one can answer. */
  private judgeLater(attested: AttestedNodes, question: Question): void {
    const { nowMs } = question
    if (nowMs - this.judgedLaterAtMs < judgedLaterMs) return
    this.judgedLaterAtMs = nowMs
    this.judged(attested, question, AbortSignal.timeout(evidenceMsMax)).catch(() => {})
  }

  /** Asks the gateway, and the nodes for evidence where there is a nonce for it. */
  private async list(
    { key, model, headers, nowMs }: Question,
    signal: AbortSignal,
    nonce?: Uint8Array,
  ): Promise<readonly SealedNode[]> {
    const query = new URLSearchParams({ model, ...(nonce === undefined ? {} : { nonce: bytesToHex(nonce) }) })
    const response = await this.send(`${this.gateway}${sealedNodesPath}?${query}`, { headers, signal })
    const nodes = await askNodes(response, nonce !== undefined)
    this.lists.delete(key)
    const [oldest] = this.lists.keys()
    if (this.lists.size >= listsMax && oldest !== undefined) this.lists.delete(oldest)
    // The evidence has been judged when this list is read again.
    this.lists.set(key, { nodes: nodes.map(({ attestation: _, ...node }) => node), atMs: nowMs })
    return nodes
  }

  /** The answer of the first node that begins one. */
  private async firstOf(
    nodes: readonly TrustedNode[],
    asked: Sealable,
    headers: Headers,
    signal: AbortSignal,
  ): Promise<Response | 'key_mismatch'> {
    for (const [at, node] of nodes.entries()) {
      this.options.onNode?.(node)
      const response = await this.ask(node, asked, headers, signal)
      const isLast = at === nodes.length - 1
      if (response === 'key_mismatch' || isLast || !isElsewhere(response.status)) return response
      // The order of the list does not hold any more.
      this.lists.clear()
      await response.body?.cancel()
    }
    throw new SealedError('no_node')
  }

  private async ask(
    { nodeId, publicKey }: TrustedNode,
    { path, model, maxTokens, body }: Sealable,
    given: Headers,
    signal: AbortSignal,
  ): Promise<Response | 'key_mismatch'> {
    const text = this.options.padding === false ? JSON.stringify(body) : paddedJson(JSON.stringify(withPad(body)))
    const { enc, secret, frames } = await sealBody(publicKey, [new TextEncoder().encode(text)])
    const headers = new Headers(given)
    headers.set('content-type', 'application/json')
    headers.set(encapsulatedKeyHeader, bytesToHex(enc))
    headers.set(names.sealedModel, model)
    if (maxTokens !== null) headers.set(names.maxTokens, String(maxTokens))
    const url = `${this.gateway}${sealedNodesPath}/${encodeURIComponent(nodeId)}${path}`
    const sealed = new Blob(frames.map((frame) => framed(frame) as Uint8Array<ArrayBuffer>))
    const response = await this.send(url, { method: 'POST', headers, body: await sealed.arrayBuffer(), signal })
    if (response.headers.has(responseNonceHeader)) return openAnswer(response, { enc, secret })
    if (response.ok) throw new SealedError('answer_not_sealed', response.status)
    return (await isKeyMismatch(response)) ? 'key_mismatch' : response
  }
}

/** Asks the node to pad its answer, too; inside the seal. */
function withPad(body: Readonly<Record<string, unknown>>): object {
  const svc = typeof body.svc === 'object' && body.svc !== null ? body.svc : {}
  return { ...body, svc: { ...svc, pad: true } }
}

/** What a gateway may say in place of an answer, bytes. */
const refusalBytesMax = 64 * 1024

/** Such an answer is not the node's own word: it costs one more question and nothing else. */
async function isKeyMismatch(response: Response): Promise<boolean> {
  if (response.status !== 422) return false
  const { type } = ((await foreignAnswer(response.clone(), refusalBytesMax)) ?? {}) as { readonly type?: unknown }
  return type === keyMismatchType
}

/** Rejects with `not_sealable`: a sealing fetch never sends anything in the clear instead. */
async function sealable(request: Request): Promise<Sealable> {
  const { pathname } = new URL(request.url)
  // `/chat/completions` before `/completions`, which it ends with.
  const path = sealedOperationPaths.find((each) => pathname.endsWith(each))
  const body = request.method === 'POST' ? foreignJson(await request.text()) : undefined
  if (path === undefined || typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new SealedError('not_sealable')
  }
  const fields = body as Readonly<Record<string, unknown>>
  const { model } = fields
  if (typeof model !== 'string' || model === '') throw new SealedError('not_sealable')
  const tokens = fields.max_tokens ?? fields.max_completion_tokens ?? fields.max_output_tokens
  return { path, model, maxTokens: typeof tokens === 'number' ? tokens : null, body: fields }
}
