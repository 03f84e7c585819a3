import { Problem } from '../../errors.ts'
import { promptOf } from '../../machines/placement/blocks.ts'
import { textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import {
  readTextCompletion,
  type TextAnswer,
  TextStream,
  textCompletionText,
  textWeightOf,
} from '../../protocol/completions/text-completion.ts'
import { firstUnlisted } from '../../protocol/dialects/unlisted.ts'
import { CompletionRequest, TextCompletion } from '../../protocol/wire/inference/completions.ts'
import type { Operation, WholeAnswer } from './operation.ts'
import { readRequestBody, refuseRouting } from './request-body.ts'

const path = '/v1/completions'
/** Of a UTF-16 unit, in hundredths of a token, as for chat (§27). */
const unitHundredthsLeast = 12

type CompletionAnswer = WholeAnswer & TextAnswer

/** One prompt: a text, a list with one text, or the tokens of one. */
function refuseSeveral({ prompt, n, best_of: best }: CompletionRequest): void {
  if (n != null && n > 1) throw new Problem('n_not_supported', { param: 'n' })
  if (best != null && best > 1) throw new Problem('n_not_supported', { param: 'best_of' })
  if (typeof prompt === 'string' || (prompt.length === 1 && typeof prompt[0] === 'string')) return
  if (prompt.every((item) => typeof item === 'number')) return
  throw new Problem('invalid_request', { param: 'prompt', detail: 'prompt: one text, or the tokens of one' })
}

const textOf = ({ prompt }: CompletionRequest): string => {
  const [first] = typeof prompt === 'string' ? [prompt] : prompt
  return typeof first === 'string' ? first : ''
}

/** As they were sent: equal tokens have equal texts. */
const tokensOf = ({ prompt }: CompletionRequest): string => (typeof prompt === 'string' ? '' : prompt.join(' '))

function estimate(body: CompletionRequest) {
  const { prompt, suffix } = body
  const given = typeof prompt !== 'string' && typeof prompt[0] === 'number' ? prompt.length : textWeight(textOf(body))
  const tokens = wholeTokens(given + textWeight(suffix ?? ''))
  return { tokens, textTokens: tokens }
}

export const completions: Operation<CompletionRequest> = {
  name: 'completions',
  path: '/completions',
  summary: 'Complete a text',
  description:
    'OpenAI-compatible: one prompt, `suffix` for filling in the middle, whole or streamed. Fields that are not listed pass through to the node, and those that no table of the gateway knows to your own nodes alone.',
  schema: CompletionRequest,
  response: TextCompletion,
  modality: 'chat',
  byAgents: false,
  receiptKind: 'hosted_chat',
  envelope: 'openai',
  generates: true,
  idPrefix: 'cmpl-',
  read(text) {
    const body = readRequestBody(text, CompletionRequest)
    refuseRouting(body, false)
    refuseSeveral(body)
    return body
  },
  unlisted: (body) => firstUnlisted('completions', body),
  estimate,
  tokensLeast: (body) => Math.floor((textOf(body).length * unitHundredthsLeast) / 100),
  prompt: (customerId, modelId, body, hash) =>
    promptOf(customerId, modelId, { messages: [{ role: 'prompt', content: textOf(body) || tokensOf(body) }] }, hash),
  upstream: (text, body, ceiling) => upstreamBody(text, body, ceiling, null, path),
  readWhole(text): CompletionAnswer | null {
    const answer = readTextCompletion(text)
    return answer === null ? null : { ...answer, choices: [], outputWeight: () => textWeightOf(answer.texts) }
  },
  writeWhole: (identity, answer, end) => textCompletionText(identity, (answer as CompletionAnswer).texts, end),
  writer: (identity) => new TextStream(identity),
}
