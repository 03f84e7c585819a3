import { expect, test } from 'bun:test'
import { Problem, type ProblemCode, problemKinds } from '../../../src/errors.ts'
import { answeringModel, leadsToNextModel, modelsRefused } from '../../../src/machines/refusals/models-refused.ts'

const refused = (model: string, code: ProblemCode, more = {}) => ({ model, problem: new Problem(code, more) })

test('§28: what is of the account, of the request’s time or of this gateway leads to no other model', () => {
  const leading = (Object.keys(problemKinds) as ProblemCode[]).filter((code) => leadsToNextModel(new Problem(code)))
  expect(leading.sort()).toEqual([
    ...['capacity_exhausted', 'context_length_exceeded', 'insufficient_funds', 'invalid_request', 'max_price_exceeded'],
    ...['modality_not_supported', 'model_loading', 'model_not_allowed', 'model_not_found', 'no_route_available'],
    'node_asleep',
    ...['privacy_class_not_allowed', 'unsupported_input', 'upstream_error', 'upstream_timeout'],
  ] as ProblemCode[])
})

test('§28: the first refusal that may pass is told, with its wait and every model’s reason', () => {
  const all = [
    refused('a', 'model_not_found', { param: 'model' }),
    refused('b', 'capacity_exhausted', { retryAfterSeconds: 7 }),
    refused('c', 'no_route_available', { retryAfterSeconds: 5, detail: 'It is off.' }),
  ] as const
  expect(answeringModel([...all]).model).toBe('b')
  const { code, options, message } = modelsRefused([...all])
  expect([code, options.retryAfterSeconds]).toEqual(['capacity_exhausted', 7])
  expect(message).toBe(
    'None of the 3 models of this request can answer now. a: No such model. b: Every node that serves this model is full. c: It is off.',
  )
  expect(modelsRefused([all[0]])).toBe(all[0].problem)
  expect(modelsRefused([all[0], refused('d', 'model_not_allowed')]).code).toBe('model_not_found')
})
