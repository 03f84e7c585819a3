import { type Grant, textBytes } from '../../host/budget.ts'
import { usageSum } from '../../protocol/chat/token-usage.ts'
import { dispatch } from '../dispatch/dispatch.ts'
import { promisedEnd } from '../promises/promised-end.ts'
import type { Exchange } from './exchange.ts'
import { metadataOf } from './exchange-receipt.ts'
import type { ManyCalls } from './many-calls.ts'
import { placementRequest } from './wanted.ts'
import { type ReceivedAnswer, receiveWhole, type SentAnswer, sentAnswer } from './whole-answer.ts'

/** A call, and its answer, which is charged when all are there. */
interface Answered {
  readonly call: Exchange
  readonly answer: ReceivedAnswer
}

/** One whole answer of several calls. What fails before all of it is there costs nothing (§27). */
export async function joinedAnswer(calls: ManyCalls): Promise<SentAnswer> {
  const answered: Answered[] = []
  const grants: Grant[] = []
  try {
    await calls.run(async (call, at) => {
      const answer = await dispatch(call, placementRequest(call), (route) =>
        receiveWhole(call, route, calls.bodyFor(call, route)),
      )
      if (calls.ended) return calls.drop(call)
      const kept = call.handOver(call.keptBytes)
      if (kept !== null) grants.push(kept)
      answered[at] = { call, answer }
    })
    return await written(calls, answered)
  } finally {
    for (const grant of grants) grant.close()
    // What was charged has ended already.
    for (const one of answered) if (one !== undefined) calls.drop(one.call)
    await calls.end()
  }
}

async function written(calls: ManyCalls, answered: readonly Answered[]): Promise<SentAnswer> {
  const { exchange, plan } = calls
  const { operation, body } = exchange.command
  const usage = usageSum(answered.map(({ answer }) => answer.usage))
  const parts = answered.map(({ answer }) => answer.conclusion.metadata)
  const whole = plan.join(answered.map(({ answer }) => answer.completion))
  const metadata = metadataOf(exchange, parts)
  const written = operation.writeWhole(exchange.identity(), whole, { usage, metadata }, body)
  // Only an answer that stands is charged, and billed work must be durable before the client gets it (§14).
  for (const { call, answer } of answered) call.record(answer.conclusion)
  await Promise.all(answered.map(({ call }) => call.durable))
  for (const { call, answer } of answered) call.finish(200, null, answer.usage, null)
  await calls.end()
  const text = await (promisedEnd(exchange, written, metadata) ?? written)
  const kept = exchange.handOver(textBytes(text.length))
  exchange.finish(200, null, usage, null)
  return sentAnswer(exchange, text, kept)
}
