import { promptOf } from '../../machines/placement/blocks.ts'
import { renamedBound, upstreamBody } from '../../protocol/chat/upstream-request.ts'
import {
  readTextCompletion,
  TextStream,
  textCompletionText,
  textWeightOf,
} from '../../protocol/completions/text-completion.ts'
import { reportMembers, reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { firstUnlisted } from '../../protocol/dialects/members/unlisted.ts'
import { CompletionRequest, TextCompletion } from '../../protocol/wire/inference/completions.ts'
import { type CompletionAnswer, completionCalls, estimateCalls, promptsOf, refuseAnswers } from './completion-calls.ts'
import type { Operation } from './operation.ts'
import { readRequestBody, refuseRouting, refuseTwoBounds } from './request-body.ts'

const path = '/v1/completions'
/** Of a UTF-16 unit, in hundredths of a token, as for chat (§27). */
const unitHundredthsLeast = 12

/** As they were sent: equal tokens have equal texts. */
function promptTextOf(body: CompletionRequest): string {
  const [first = ''] = promptsOf(body)
  return typeof first === 'string' ? first : first.join(' ')
}

function tokensLeast(body: CompletionRequest): number {
  const units = (prompt: string | readonly number[]) => (typeof prompt === 'string' ? prompt.length : 0)
  return Math.floor((Math.max(...promptsOf(body).map(units)) * unitHundredthsLeast) / 100)
}

export const completions: Operation<CompletionRequest> = {
  name: 'completions',
  path: '/completions',
  summary: 'Complete a text',
  description:
    'OpenAI-compatible: a prompt or a list of them, `n` and `best_of` answers to each, `suffix` for filling in the middle, whole or streamed. Fields that are not listed pass through to the node, and those that no table of the gateway knows to your own nodes alone.',
  schema: CompletionRequest,
  response: TextCompletion,
  modality: 'chat',
  ownPath: path,
  byAgents: false,
  receiptKind: 'hosted_chat',
  envelope: 'openai',
  generates: true,
  idPrefix: 'cmpl-',
  read(text) {
    const body = readRequestBody(text, CompletionRequest)
    refuseRouting(body, false)
    refuseTwoBounds(body)
    refuseAnswers(body)
    return body
  },
  unlisted: (body) => firstUnlisted('completions', body),
  estimate: estimateCalls,
  tokensLeast,
  prompt: (customerId, modelId, body, hash) =>
    promptOf(customerId, modelId, { messages: [{ role: 'prompt', content: promptTextOf(body) }] }, hash),
  // OpenAI never gave completions the other name, so no server looks for it here.
  upstream: (text, body, ceiling) => upstreamBody(text, body, ceiling, renamedBound(body), path),
  calls: completionCalls,
  readWhole(text): CompletionAnswer | null {
    const answer = readTextCompletion(text)
    return answer === null ? null : { ...answer, choices: [], outputWeight: () => textWeightOf(answer.texts) }
  },
  writeWhole(identity, answer, end, body) {
    const { texts, timings } = answer as CompletionAnswer
    return textCompletionText(identity, texts, end, reportMembers({ timings }, reportsAsked(body)))
  },
  writer: (identity, body) => new TextStream(identity, reportsAsked(body)),
}
