import type { InferenceRequest, Operation } from '../../actors/operations/operation.ts'
import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { envelopeResponse } from '../../protocol/json/problem-response.ts'
import { responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { paddedJson } from '../../protocol/sealed/padding.ts'
import { Roster } from '../../roster.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { TransportError } from '../../transport/transport.ts'
import { isAwaited } from '../chat/awaited.ts'
import { callsMax } from '../chat/node-chat.ts'
import type { SignReceipt } from '../receipts/receipt-signer.ts'
import { baseHeaders } from '../rerank/answers.ts'
import { chooseRuntime } from '../runtimes/choose-runtime.ts'
import type { RuntimeSet } from '../runtimes/runtime-set.ts'
import { AnswerSealer } from './answer-sealer.ts'
import { SealedCall } from './sealed-call.ts'
import type { OpenedRequest } from './sealed-keys.ts'
import type { SealedOrder } from './sealed-order.ts'
import { SealedStream, type SealedTimes, sealedTimes } from './sealed-stream.ts'
import { UsageRecords } from './usage-records.ts'
import { askRuntime, transportProblem, upstreamOf, wholeText } from './whole-work.ts'

export interface SealedInput {
  readonly operation: Operation
  readonly order: SealedOrder
  readonly opened: OpenedRequest
  /** The encapsulated key, hex. */
  readonly enc: string
  /** `0x` and the hex SHA-256 of the request's sealed bytes. */
  readonly requestCommitment: string
  readonly signal: AbortSignal
  /** Called once, when the whole answer has gone out or nothing more will come. */
  readonly ended: () => void
}

interface Request {
  readonly body: InferenceRequest
  readonly text: string
  readonly padded: boolean
}

export interface SealedInferenceOptions {
  readonly runtimes: RuntimeSet
  readonly sign: SignReceipt
  /** Of answers that did not go out whole. */
  readonly signBroken: SignReceipt
  readonly times?: SealedTimes
}

/** Sealed requests of the agent: opened ones in, sealed answers out (§38). Everything after the opening stays in the seal. */
export class SealedInference {
  readonly usage = new UsageRecords()
  private readonly calls = new Roster<'openPlace', SealedCall>('openPlace')
  private stopping = false
  private emptied: (() => void) | null = null

  constructor(private readonly options: SealedInferenceOptions) {}

  /** Somebody waits for the beginning of an answer. */
  get isAwaited(): boolean {
    return isAwaited(this.calls)
  }

  /** Calls under way. */
  get open(): number {
    return this.calls.size
  }

  /** Rejects only with the signal's reason, when the caller has left, and for defects. */
  async answer(input: SealedInput): Promise<Response> {
    const sealer = new AnswerSealer(input.opened)
    let padded = false
    try {
      const request = readRequest(input)
      padded = request.padded
      return await this.run(input, request, sealer)
    } catch (error) {
      input.ended()
      input.signal.throwIfAborted()
      const problem = error instanceof TransportError ? transportProblem(error) : error
      if (!(problem instanceof Problem)) throw error
      return sealedRefusal(input, problem, sealer, padded)
    }
  }

  /** Accepts no more calls. Resolves when the last call has ended, and cuts the remaining ones after `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true
    if (this.calls.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.emptied = resolve
    await waitAtMost(graceMs, promise)
    for (const call of [...this.calls]) {
      if (call.stream === null) call.parts.signal.abort()
      else call.stream.cut()
    }
  }

  private async run(input: SealedInput, { body, text, padded }: Request, sealer: AnswerSealer): Promise<Response> {
    if (this.stopping) throw new Problem('service_unavailable')
    if (this.calls.size >= callsMax) throw new Problem('capacity_exhausted')
    input.signal.throwIfAborted()
    const { operation, order, enc, requestCommitment, ended } = input
    const { upstreamModel: model, runtimeId } = order
    const runtime = chooseRuntime(this.options.runtimes.list(), { model, modality: operation.modality, runtimeId })
    const call = new SealedCall({
      ...{ order, operation, body, text, runtime, sealer, enc, requestCommitment },
      sign: this.options.sign,
      signBroken: this.options.signBroken,
      signal: new CallSignal(),
      released: (done, usage) => {
        this.usage.keep(usage)
        this.released(done)
        ended()
      },
    })
    this.calls.add(call)
    input.signal.addEventListener('abort', () => call.parts.signal.abort(), { once: true })
    try {
      await call.opened()
      return await (body.stream === true ? this.streamed(call, input, padded) : whole(call, padded))
    } catch (error) {
      call.end(input.signal.aborted ? 'aborted' : 'error', false)
      throw error
    }
  }

  private async streamed(call: SealedCall, { signal }: SealedInput, padded: boolean): Promise<Response> {
    const { operation, body, text, sealer } = call.parts
    const writer = operation.writer?.(call.identity, body, false)
    if (writer === undefined) throw new Problem('invalid_request', { param: 'stream' })
    if ((operation.calls?.(text, body) ?? null) !== null) {
      const detail = 'A sealed stream has one answer to one prompt. Ask without stream, or once for each.'
      throw new Problem('n_not_supported', { param: 'stream', detail })
    }
    const { include_usage: usage } = (body.stream_options ?? {}) as { readonly include_usage?: unknown }
    const times = this.options.times ?? sealedTimes
    const stream = new SealedStream(call, writer, { times, separateUsage: usage === true, padded })
    signal.addEventListener('abort', () => stream.abandon(signal.reason), { once: true })
    // A failure is told by the stream: before its head by `frames`, later by an event.
    askRuntime(call, upstreamOf(call, text, body)).then(
      (response) => stream.read(response),
      (error: unknown) => stream.fail(problemOf(error)),
    )
    const frames = await stream.frames
    return new Response(frames, {
      headers: { ...baseHeaders, ...eventStreamHeaders, [responseNonceHeader]: sealer.nonce },
    })
  }

  private released(call: SealedCall): void {
    this.calls.delete(call)
    if (this.calls.size === 0) this.emptied?.()
  }
}

const problemOf = (error: unknown): Problem =>
  error instanceof TransportError
    ? transportProblem(error)
    : error instanceof Problem
      ? error
      : new Problem('internal_error')

/** The body as the gateway would check it. Throws `Problem`. */
function readRequest({ operation, opened, order }: SealedInput): Request {
  const sent = utf8(opened.pieces)
  const body = operation.read(sent)
  if (body.svc?.mixture !== undefined) throw new Problem('mixture_unsupported_path', { param: 'svc.mixture' })
  if (body.model !== order.clientModel) {
    const detail = `The sealed body asks for another model than the header says, which is ${order.clientModel}.`
    throw new Problem('invalid_request', { param: 'model', detail })
  }
  checkTokens(operation, body, order)
  const { pad } = (body.svc ?? {}) as { readonly pad?: unknown }
  return { body, text: operation.written?.(body) ?? sent, padded: pad === true }
}

function checkTokens({ generates }: Operation, body: InferenceRequest, { maxTokens }: SealedOrder): void {
  const asked = body.max_tokens ?? body.max_completion_tokens ?? null
  if (!generates || maxTokens === null || asked === null || asked <= maxTokens) return
  const detail = `The sealed body asks for ${asked} tokens; the header X-SVC-Max-Tokens says ${maxTokens}.`
  throw new Problem('max_tokens_exceeded', { param: 'max_tokens', detail })
}

function utf8(pieces: readonly Uint8Array[]): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces))
  } catch {
    throw new Problem('invalid_json', { detail: 'The body must be UTF-8' })
  }
}

async function whole(call: SealedCall, padded: boolean): Promise<Response> {
  const { sealer } = call.parts
  const { text, finish } = await wholeText(call)
  const frame = sealer.frame(padded ? paddedJson(text) : text)
  call.end(finish, true)
  const headers = { ...baseHeaders, 'content-type': 'application/json', [responseNonceHeader]: sealer.nonce }
  return new Response(frame as Uint8Array<ArrayBuffer>, { headers })
}

/** The dialect's own error, inside the seal. Its status is in the clear, as EHBP has it. */
async function sealedRefusal(
  { operation, order }: SealedInput,
  problem: Problem,
  sealer: AnswerSealer,
  padded: boolean,
): Promise<Response> {
  const plain = envelopeResponse(operation.envelope, problem, order.requestId, baseHeaders, null)
  const text = await plain.text()
  const headers = new Headers(plain.headers)
  headers.set(responseNonceHeader, sealer.nonce)
  const frame = sealer.frame(padded ? paddedJson(text) : text)
  return new Response(frame as Uint8Array<ArrayBuffer>, { status: plain.status, headers })
}
