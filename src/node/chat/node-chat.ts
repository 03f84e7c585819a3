import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { ulid } from '../../ids.ts'
import { type PublicCompletion, publicCompletion } from '../../protocol/chat/completion.ts'
import { GatheredAnswer } from '../../protocol/chat/gathered-answer.ts'
import { saysWhy } from '../../protocol/chat/node-refusal.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { wireUsage } from '../../protocol/chat/token-usage.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { Roster } from '../../roster.ts'
import { membersFor } from '../../runtimes/registry.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { errorText } from '../../transport/error-text.ts'
import { gather } from '../../transport/gather.ts'
import { type NodeResponse, TransportError } from '../../transport/transport.ts'
import { chooseRuntime } from '../runtimes/choose-runtime.ts'
import type { RuntimeSet } from '../runtimes/runtime-set.ts'
import { isAwaited } from './awaited.ts'
import { ChatCall, type ChatInput } from './chat-call.ts'
import { ChatStream } from './chat-stream.ts'

const chatPath = '/v1/chat/completions'
/** The largest whole answer of a runtime, bytes. */
const answerBytesMax = 16 * 1024 * 1024
/** How long a complete answer waits for its usage. */
const usageWaitMs = 2_000
/** How many calls may run at once: twice the number that one tunnel may open. */
export const callsMax = 2_048

/** Chats of the agent, each at one of its runtimes. */
export class NodeChat {
  private readonly calls = new Roster<'openPlace', ChatCall>('openPlace')
  private stopping = false
  private emptied: (() => void) | null = null

  constructor(private readonly runtimes: RuntimeSet) {}

  /** Somebody waits for the beginning of an answer. */
  get isAwaited(): boolean {
    return isAwaited(this.calls)
  }

  /** Calls under way. */
  get open(): number {
    return this.calls.size
  }

  /** Throws `Problem`; rejects with the signal's reason when the caller has left. */
  async answer(input: ChatInput): Promise<Response> {
    if (this.stopping) throw new Problem('service_unavailable')
    if (this.calls.size >= callsMax) throw new Problem('capacity_exhausted')
    input.signal.throwIfAborted()
    const wanted = { model: input.body.model, modality: 'chat', runtimeId: input.runtimeId } as const
    const runtime = chooseRuntime(this.runtimes.list(), wanted)
    const call = new ChatCall(input, runtime, new CallSignal(), (done) => this.released(done))
    this.calls.add(call)
    const leave = () => call.signal.abort()
    input.signal.addEventListener('abort', leave, { once: true })
    try {
      return await this.send(call)
    } catch (error) {
      call.release()
      input.signal.throwIfAborted()
      throw error instanceof TransportError ? transportProblem(error) : error
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
      if (call.stream === null) call.signal.abort()
      else call.stream.cut()
    }
  }

  private async send(call: ChatCall): Promise<Response> {
    await call.opened()
    const { body, text } = call.input
    const members = membersFor(call.runtime.kind, body)
    const asked = call.asked()
    const changed = asked === null ? members : { ...asked.changed, ...members }
    const upstream = upstreamBody(text, body, null, changed)
    const response = await call.runtime.transport?.fetch(chatPath, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: upstream.forModel(asked?.model ?? body.model),
      signal: call.signal,
      // The agent does not know whose request it is, so it never reuses a connection for the requests of two callers.
      once: true,
    })
    if (response === undefined) throw new Problem('runtime_unavailable')
    if (response.status !== 200) throw await statusProblem(call, response)
    if (body.stream === true) return this.streamed(call, response)
    return whole(call, await (upstream.stream ? readStream(call, response) : readWhole(call, response)))
  }

  private streamed(call: ChatCall, response: NodeResponse): Response {
    const stream = new ChatStream(call, response)
    call.stream = stream
    return new Response(stream.stream, { headers: eventStreamHeaders })
  }

  private released(call: ChatCall): void {
    this.calls.delete(call)
    if (this.calls.size === 0) this.emptied?.()
  }
}

const noAnswer = (call: ChatCall, said: string) => call.refusal(null, said) ?? new Problem('upstream_error')

async function readWhole(call: ChatCall, response: NodeResponse): Promise<PublicCompletion> {
  const text = await response.text(answerBytesMax)
  const completion = publicCompletion(text)
  if (completion === null) throw noAnswer(call, text)
  return completion
}

/** Reads the answer as a stream, for runtimes that otherwise notice too late that the caller has left (§27). */
async function readStream(call: ChatCall, response: NodeResponse): Promise<PublicCompletion> {
  const answer = new GatheredAnswer()
  const { complete } = await gather(response, answer, call.signal, usageWaitMs)
  if (!complete) throw noAnswer(call, answer.errorSaid)
  return answer.completion()
}

function whole(call: ChatCall, completion: PublicCompletion): Response {
  const { timings } = completion
  const { usage, svc } = call.conclude(completion.usage, completion.outputWeight(), completion.choices)
  call.release()
  return Response.json(
    {
      id: `chatcmpl-${ulid()}`,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1_000),
      model: call.modelId,
      ...(reportsAsked(call.input.body)?.timings === true && timings !== null ? { timings } : {}),
      choices: completion.choices,
      usage: wireUsage(usage),
      svc,
    },
    { headers: { 'cache-control': 'no-store' } },
  )
}

const transportProblem = ({ failure }: TransportError) =>
  new Problem(failure === 'timeout' ? 'upstream_timeout' : 'upstream_error')

/** Shows nothing of the runtime's own body that would identify this node. */
async function statusProblem(call: ChatCall, response: NodeResponse): Promise<Problem> {
  const { status } = response
  if (saysWhy(status)) {
    return call.refusal(status, await errorText(response, call.signal)) ?? new Problem('upstream_error')
  }
  response.discard()
  if (status !== 429) return new Problem('upstream_error')
  const seconds = Number(response.headers.get('retry-after'))
  return new Problem('capacity_exhausted', seconds > 0 ? { retryAfterSeconds: seconds } : {})
}
