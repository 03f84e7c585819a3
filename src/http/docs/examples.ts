import { Type } from '@sinclair/typebox'
import { inEther } from '../../amounts.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import { tokensAboveBound } from '../../machines/refusals/token-bound.ts'
import { checkPrecondition } from '../../precondition.ts'
import { openAiError } from '../../protocol/json/error-envelopes.ts'
import { problemBody } from '../../protocol/json/problem-response.ts'
import { noSuchModel } from '../../protocol/validation/missing-model.ts'
import { fieldSentence } from '../../protocol/validation/sentences.ts'

const requestId = 'req_01JD9QW3B2K7M5T8XV4N6P0RAH'

function refusalOf(refuse: () => void): Problem {
  try {
    refuse()
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
  throw new Error('an example that is no refusal')
}

const quoteWei = 1_200_000_000_000_000n
const temperature = fieldSentence('temperature', Type.Number({ minimum: 0, maximum: 2 }), 3)

/** Whose message has values: as the gateway itself writes it. All others say their title. */
const withValues: { readonly [C in ProblemCode]?: Problem } = {
  model_not_found: new Problem('model_not_found', {
    param: 'model',
    detail: noSuchModel('lama-3.1-8b', ['llama-3.1-8b', 'qwen3-32b']),
  }),
  invalid_request: new Problem('invalid_request', { param: 'temperature', detail: temperature }),
  max_tokens_exceeded: tokensAboveBound(8_192, 4_096) ?? new Problem('max_tokens_exceeded'),
  insufficient_funds: new Problem('insufficient_funds', {
    detail: `This request is quoted at ${inEther(quoteWei)}; the account has ${inEther(quoteWei / 3n)} available.`,
  }),
  max_price_exceeded: new Problem('max_price_exceeded', {
    param: 'svc.max_price_wei',
    detail: `This request is quoted at ${inEther(quoteWei)}; svc.max_price_wei allows ${inEther(quoteWei / 2n)}.`,
  }),
  model_not_allowed: new Problem('model_not_allowed', {
    param: 'model',
    detail: 'The policy of this key or of its account does not allow qwen3-32b. GET /v1/models lists what you can use.',
  }),
  insufficient_role: new Problem('insufficient_role', { detail: 'This needs the role operator' }),
  key_limit_reached: new Problem('key_limit_reached', { detail: 'A customer may have 10 live keys' }),
  admin_name_taken: new Problem('admin_name_taken', {
    param: 'name',
    detail: 'Another token bears the name Ada. Choose another name, or revoke that token first.',
  }),
  admin_limit_reached: new Problem('admin_limit_reached', {
    detail: 'There may be 200 named tokens. Revoke one that nobody uses.',
  }),
  rate_limited: new Problem('rate_limited', { retryAfterSeconds: 12 }),
  capacity_exhausted: new Problem('capacity_exhausted', { retryAfterSeconds: 5 }),
  precondition_failed: refusalOf(() =>
    checkPrecondition({ match: ['the revision that you read'], absent: false }, { revision: 'another one' }),
  ),
}

/** The whole body of such an answer. `chat`: in OpenAI’s envelope, as inference answers. */
export function exampleOf(code: ProblemCode, chat: boolean): string {
  const problem = withValues[code] ?? new Problem(code)
  const help = `/docs/errors#${code}`
  const body = chat
    ? openAiError(problem, requestId, help)
    : problemBody(problem, requestId, { typeBase: null, helpBase: '' })
  return JSON.stringify(body, null, 2)
}
