import type { InferenceRequest, WholeAnswer } from '../../actors/operations/operation.ts'
import { Problem } from '../../errors.ts'
import { GatheredAnswer } from '../../protocol/chat/gathered-answer.ts'
import { saysWhy } from '../../protocol/chat/node-refusal.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import { usageSum } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { secondMs } from '../../time.ts'
import { errorText } from '../../transport/error-text.ts'
import { gather } from '../../transport/gather.ts'
import type { NodeResponse, TransportError } from '../../transport/transport.ts'
import type { SealedCall } from './sealed-call.ts'

/** The largest whole answer of a runtime, bytes. */
const answerBytesMax = 16 * 1024 * 1024
/** How long a complete answer waits for its usage. */
const usageWaitMs = 2 * secondMs

/** Rejects with `Problem`, and with the caller's `TransportError` where the call was ended. */
export async function askRuntime(call: SealedCall, upstream: UpstreamBody): Promise<NodeResponse> {
  const { order, runtime, signal } = call.parts
  if (runtime.transport === null) throw new Problem('runtime_unavailable')
  const asked = runtime.askedFor?.(order.upstreamModel)
  const response = await runtime.transport.fetch(upstream.path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: upstream.forModel(asked?.model ?? order.upstreamModel, asked?.changed),
    signal,
    // Whose request it is the agent does not know: no connection carries the requests of two callers.
    once: true,
  })
  if (response.status !== 200) throw await statusProblem(call, response)
  return response
}

/** Shows nothing of the runtime's own body that would identify this node. */
async function statusProblem(call: SealedCall, response: NodeResponse): Promise<Problem> {
  const { status } = response
  if (saysWhy(status)) return call.refusal(status, await errorText(response, call.parts.signal))
  response.discard()
  if (status !== 429) return new Problem('upstream_error')
  const seconds = Number(response.headers.get('retry-after'))
  return new Problem('capacity_exhausted', seconds > 0 ? { retryAfterSeconds: seconds } : {})
}

export const upstreamOf = ({ route, parts }: SealedCall, text: string, body: InferenceRequest): UpstreamBody =>
  parts.operation.upstream(text, body, ceilingOf(parts.order.maxTokens, body), route)

/** What the gateway has set aside is a bound of a request that names none. */
const ceilingOf = (maxTokens: number | null, { max_tokens, max_completion_tokens }: InferenceRequest) =>
  max_tokens == null && max_completion_tokens == null ? maxTokens : null

/** The text of the whole answer in its client's dialect. Rejects as `askRuntime`. */
export async function wholeText(call: SealedCall): Promise<{ readonly text: string; readonly finish: string }> {
  const { operation, body } = call.parts
  const answers = await allAnswers(call)
  const answer = answers.length === 1 ? (answers[0] as WholeAnswer) : joined(call, answers)
  const usage: TokenUsage | null = answers.every((each) => each.usage !== null)
    ? usageSum(answers.flatMap((each) => each.usage ?? []))
    : null
  const settled = call.settle(usage, answer.outputWeight(), Date.now())
  const [first] = answer.choices
  return {
    text: operation.writeWhole(call.identity, answer, settled, body),
    finish: typeof first?.finish_reason === 'string' ? first.finish_reason : 'stop',
  }
}

/** One after the other: the node has as many slots as it has, and other callers. */
async function allAnswers(call: SealedCall): Promise<readonly WholeAnswer[]> {
  const { operation, body, text } = call.parts
  const plan = operation.calls?.(text, body) ?? null
  const answers: WholeAnswer[] = []
  if (plan !== null) {
    for (let at = 0; at < plan.count; at++) answers.push(await one(call, plan.textOf(at), plan.bodyOf(at)))
    return answers
  }
  const { parts } = operation
  const count = parts?.count(body) ?? 1
  const most = parts?.unitsMax(call.route) ?? count
  if (parts === undefined || count <= most) return [await one(call, text, body)]
  for (let from = 0; from < count; from += most) {
    const part = parts.cut(body, from, Math.min(count, from + most))
    answers.push(await one(call, JSON.stringify(part), part))
  }
  return answers
}

function joined(call: SealedCall, answers: readonly WholeAnswer[]): WholeAnswer {
  const { operation, body, text } = call.parts
  const plan = operation.calls?.(text, body) ?? null
  const answer = plan?.join(answers) ?? operation.parts?.join(answers)
  if (answer === undefined) throw new Error('several answers to a request that is one')
  return answer
}

async function one(call: SealedCall, text: string, body: InferenceRequest): Promise<WholeAnswer> {
  const upstream = upstreamOf(call, text, body)
  const response = await askRuntime(call, upstream)
  if (upstream.stream) return readStream(call, response)
  const said = await response.text(answerBytesMax)
  const answer = call.parts.operation.readWhole(said, body, call.route)
  if (answer === null) throw call.refusal(null, said)
  return answer
}

/** For runtimes that otherwise notice too late that the caller has left (§27). */
async function readStream(call: SealedCall, response: NodeResponse): Promise<WholeAnswer> {
  const answer = new GatheredAnswer()
  const { complete } = await gather(response, answer, call.parts.signal, usageWaitMs)
  if (!complete) throw call.refusal(null, answer.errorSaid)
  return answer.completion()
}

export const transportProblem = ({ failure }: TransportError): Problem =>
  new Problem(failure === 'timeout' ? 'upstream_timeout' : 'upstream_error')
