import { expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import { inDigits, inEther } from '../../../src/amounts.ts'
import { Problem } from '../../../src/errors.ts'
import { checkValue } from '../../../src/protocol/json/json-body.ts'
import { faultsMax, findFaults } from '../../../src/protocol/validation/faults.ts'
import { sentenceOf } from '../../../src/protocol/validation/sentences.ts'
import { CustomerUpdate, KeyCreate } from '../../../src/protocol/wire/admin/accounts.ts'
import { ModelPut } from '../../../src/protocol/wire/admin/catalogue.ts'
import { ChatRequest } from '../../../src/protocol/wire/inference/chat.ts'
import { EmbeddingsRequest } from '../../../src/protocol/wire/inference/embeddings.ts'
import { MessagesRequest } from '../../../src/protocol/wire/inference/messages.ts'
import { OllamaChatRequest } from '../../../src/protocol/wire/inference/ollama.ts'
import { ResponsesRequest } from '../../../src/protocol/wire/inference/responses.ts'

/** `param` and message, as clients get them. */
function refusal(schema: TSchema, value: unknown): readonly unknown[] | null {
  try {
    checkValue(value, schema)
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid_request') return [error.options.param, error.message]
    throw error
  }
  return null
}

const secret = 'a prompt of mine that nobody else may read'
const chat = (more: object) => ({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...more })
const spoken = (content: unknown) => ({ model: 'm', max_tokens: 5, messages: [{ role: 'user', content }] })
const roles = 'messages[0].role must be one of system, user, assistant, tool, developer; you sent'

const cases: readonly (readonly [TSchema, unknown, string, string])[] = [
  [ChatRequest, chat({ max_tokens: -1 }), 'max_tokens', 'must be a whole number of at least 1; you sent -1.'],
  [
    ChatRequest,
    chat({ max_tokens: 2_000_000 }),
    'max_tokens',
    'must be a whole number of at most 1,048,576; you sent 2,000,000.',
  ],
  [ChatRequest, chat({ max_tokens: 1.5 }), 'max_tokens', 'must be a whole number from 1 to 1,048,576; you sent 1.5.'],
  [
    ChatRequest,
    chat({ max_tokens: '5' }),
    'max_tokens',
    'must be a whole number from 1 to 1,048,576, or null; you sent text.',
  ],
  [ChatRequest, chat({ temperature: 3 }), 'temperature', 'must be a number of at most 2; you sent 3.'],
  [ChatRequest, chat({ top_p: 0 }), 'top_p', 'must be a number above 0; you sent 0.'],
  [ChatRequest, chat({ stream: 'yes' }), 'stream', 'must be true or false, or null; you sent text.'],
  [ChatRequest, { model: 'm' }, 'messages', 'is missing. Send a list such as [{"role":"user","content":"Hi"}].'],
  [ChatRequest, chat({ messages: [] }), 'messages', 'must be a list of 1 to 20,000 items; you sent an empty list.'],
  [ChatRequest, chat({ messages: [secret] }), 'messages[0]', 'must be an object; you sent text.'],
  [ChatRequest, chat({ model: '' }), 'model', 'must be a model id from the model list; you sent an empty text.'],
  [
    MessagesRequest,
    spoken([{ text: secret }]),
    'messages[0].content[0].type',
    'is missing. Send text of at most 64 characters.',
  ],
  [MessagesRequest, spoken(5), 'messages[0].content', 'must be text, or a list of at most 10,000 items; you sent 5.'],
  [
    EmbeddingsRequest,
    { model: 'm', input: [1, {}] },
    'input[1]',
    'must be text that is not empty, a whole number of at least 0, or a list of 1 to 100,000 items; you sent an object.',
  ],
  [
    EmbeddingsRequest,
    { model: 'm', input: [[]] },
    'input[0]',
    'must be text that is not empty, a whole number of at least 0, or a list of 1 to 100,000 items; you sent an empty list.',
  ],
  [
    OllamaChatRequest,
    { model: 'm', format: 'xml' },
    'format',
    'must be one of an empty text, json, or an object; you sent xml.',
  ],
  [
    ResponsesRequest,
    { model: 'm', input: 'x', tool_choice: 'the one with the longest name' },
    'tool_choice',
    'must be text of at most 16 characters or an object; you sent text of 29 characters.',
  ],
  [KeyCreate, { name: 'x', modle_policy: 1 }, 'modle_policy', 'is not a field here. Did you mean model_policy?'],
  [
    KeyCreate,
    { name: 'x', elsewhere: 1 },
    'elsewhere',
    'is not a field here. The fields are name, model_policy, node_scope, expires_at and reason.',
  ],
  [
    KeyCreate,
    { name: 'x', expires_at: 'tomorrow' },
    'expires_at',
    'must be a time such as 2026-11-20T16:00:00Z; you sent text of 8 characters.',
  ],
  [
    CustomerUpdate,
    { gateway_policy: { rate_limit_rpm: 0 } },
    'gateway_policy.rate_limit_rpm',
    'must be a whole number of at least 1; you sent 0.',
  ],
  [
    ModelPut,
    { id: 'm', aliases: ['a', 'a'] },
    'aliases',
    'must be a list of at most 64 different items; you sent a list of 2 items.',
  ],
]

test.each(cases)(
  '§2: a sentence says the field, what it must be, and what was sent %#',
  (schema, value, field, says) => {
    expect(refusal(schema, value)).toEqual([field, `${field} ${says}`])
  },
)

test('§2: a body that is none is told so', () => {
  expect(refusal(ChatRequest, [])).toEqual(['', 'The body must be an object; you sent an empty list.'])
  expect(refusal(ChatRequest, secret)).toEqual(['', 'The body must be an object; you sent text.'])
})

test('§2: of an enumeration a word is repeated, and nothing that could be a prompt or a credential', () => {
  const role = (text: string) => refusal(ChatRequest, chat({ messages: [{ role: text, content: 'x' }] }))?.[1]
  expect(role('robot')).toBe(`${roles} robot.`)
  expect(role(secret)).toBe(`${roles} text of ${secret.length} characters.`)
  expect(role(`svc_gateway_${'a'.repeat(49)}`)).toBe(`${roles} text of 61 characters.`)
  expect(role('a\u0007b')).toBe(`${roles} text of 3 characters.`)
})

test('§2: an unknown name is repeated only where it looks like one', () => {
  const unknown = (key: string) => refusal(KeyCreate, { name: 'x', [key]: 1 })?.[1]
  expect(unknown(secret)).toStartWith('A name that you sent is not a field here.')
  expect(unknown(`svc_gateway_${'a'.repeat(49)}`)).toStartWith('A name that you sent is not a field here.')
})

test('§2: a union is told by the branch that is nearest to what was sent', () => {
  const square = Type.Object({ kind: Type.Literal('square'), side: Type.Number(), name: Type.String() })
  const circle = Type.Object({ kind: Type.Literal('circle'), radius: Type.Number(), name: Type.String() })
  const Shape = Type.Object({ shape: Type.Union([square, circle, Type.Null()]) })
  expect(refusal(Shape, { shape: { kind: 'circle', radius: 'x', name: 'n' } })).toEqual([
    'shape.radius',
    'shape.radius must be a number; you sent text.',
  ])
  expect(refusal(Shape, { shape: true })).toEqual(['shape', 'shape must be an object or null; you sent true.'])
})

test('a keyword that the search does not know is a fault of its place, never no fault', () => {
  const Numbers = Type.Object({ all: Type.Array(Type.Number(), { contains: Type.Literal(7) }) })
  expect(refusal(Numbers, { all: [1, 2] })?.[0]).toBe('all')
})

test('§27: of a million wrong items a few are looked at', () => {
  let looks = 0
  const items = new Proxy(
    Array.from({ length: 1_000_000 }, () => true),
    {
      get(target, name, receiver) {
        if (typeof name === 'string' && /^\d+$/.test(name)) looks++
        return Reflect.get(target, name, receiver)
      },
    },
  )
  for (const item of [Type.String(), Type.Union([Type.String(), Type.Array(Type.Integer()), Type.Null()])]) {
    looks = 0
    expect(findFaults(Type.Union([Type.Array(item), Type.String()]), items)).toHaveLength(faultsMax)
    expect(looks).toBeLessThan(100)
  }
  const keys = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`key${at}`, at]))
  const faults = findFaults(KeyCreate, keys)
  expect(faults).toHaveLength(faultsMax)
  expect(Math.max(...faults.map((fault) => sentenceOf(fault).length))).toBeLessThan(200)
})

test('numbers are written to be read, and those of money exactly', () => {
  expect([inDigits(1_048_576), inDigits(-1), inDigits(0.25), inDigits(1e300)]).toEqual([
    '1,048,576',
    '-1',
    '0.25',
    '1e+300',
  ])
  expect(inEther(40_000_000_000_000n)).toBe('0.00004 ETH (40000000000000 wei)')
  expect([inEther(0n), inEther(10n ** 18n), inEther(1n)]).toEqual([
    '0 ETH (0 wei)',
    '1 ETH (1000000000000000000 wei)',
    '0.000000000000000001 ETH (1 wei)',
  ])
})
