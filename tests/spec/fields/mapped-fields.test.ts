import { describe, expect, test } from 'bun:test'
import { fields } from '../../../src/protocol/dialects/fields.ts'
import {
  doorOf,
  FieldDoors,
  type Fields,
  fieldsOf,
  given,
  type Place,
  places,
} from '../../support/pools/field-doors.ts'
import { fixture } from '../../support/run/fixture.ts'

/** The form in which a node gets what a door maps, as the last column of docs/reference/fields.md names it (§35). */
const doors = await fixture(FieldDoors.start())

const schema = { type: 'object', properties: { a: { type: 'boolean' } } }
const answerSchema = {
  type: 'json_schema',
  json_schema: { name: 'answer', schema, strict: true },
}
const system = (content: string) => ({
  messages: [
    { role: 'system', content },
    { role: 'user', content: 'hi' },
  ],
})

interface Form {
  readonly name: string
  readonly value: unknown
  /** Beside what the node gets of a request without the field. */
  readonly sent: Fields
}
const form = (name: string, value: unknown, sent: Fields): Form => ({ name, value, sent })
const ofOllama = [
  form('logprobs', true, { logprobs: true }),
  form('top_logprobs', 3, { logprobs: true, top_logprobs: 3 }),
  form('num_predict', 7, { max_tokens: 7 }),
  form('format', 'json', { response_format: { type: 'json_object' } }),
  form('format', schema, { response_format: answerSchema }),
  form('think', 'low', { reasoning_effort: 'low' }),
  form('think', false, { chat_template_kwargs: { enable_thinking: false, thinking: false } }),
  form('think', true, { chat_template_kwargs: { enable_thinking: true, thinking: true } }),
]

/** An answer for each of `best_of`: a call for each, of which the last is seen. */
const forms: Readonly<Record<Place, readonly Form[]>> = {
  chat: [],
  completions: [form('best_of', 2, { logprobs: 1 }), form('max_completion_tokens', 7, { max_tokens: 7 })],
  embeddings: [],
  rerank: [],
  responses: [
    form('top_logprobs', 3, { logprobs: true, top_logprobs: 3 }),
    form('max_output_tokens', 7, { max_tokens: 7 }),
    form('reasoning', { effort: 'low' }, { reasoning_effort: 'low' }),
    form('text', { verbosity: 'low' }, { verbosity: 'low' }),
    form('text', { format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }),
    form(
      'text',
      { format: { type: 'json_schema', name: 'n', schema, strict: true } },
      { response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } } },
    ),
    form('instructions', 'Be brief.', system('Be brief.')),
    form('include', ['message.output_text.logprobs'], { logprobs: true }),
    form('include', ['reasoning.encrypted_content'], {}),
  ],
  messages: [
    form('stop_sequences', ['x'], { stop: ['x'] }),
    form('system', 'Be brief.', system('Be brief.')),
    form('system', [{ type: 'text', text: 'Be brief.' }], system('Be brief.')),
    form('thinking', { type: 'disabled' }, { chat_template_kwargs: { enable_thinking: false, thinking: false } }),
    form('output_config', { effort: 'max' }, { reasoning_effort: 'high' }),
    form('output_config', { format: { type: 'json_schema', schema } }, { response_format: answerSchema }),
    form('output_format', { type: 'json_schema', schema }, { response_format: answerSchema }),
  ],
  ollama: [...ofOllama, form('system', 'Be brief.', system('Be brief.'))],
  'ollama chat': ofOllama,
}

describe.each(places)('§35: a mapped field has its form at the node: %s', (place) => {
  test('each of the table', () => {
    const mapped = fieldsOf(place).filter((name) => fields[name]?.at[doorOf(place)] === 'mapped')
    expect([...new Set(forms[place].map(({ name }) => name))].toSorted()).toEqual(mapped.toSorted())
  })

  test('and nothing else of the request changes', async () => {
    const { sent: plain } = await doors.ask(place)
    expect(plain).not.toBeNull()
    for (const { name, value, sent } of forms[place]) {
      const asked = await doors.ask(place, given(place, name, value))
      expect([name, asked.sent]).toEqual([name, { ...plain, ...sent }])
    }
  })
})

/** What each refused field may still say, as the last column has it: it is what happens here anyway. */
const harmless: Readonly<Record<string, readonly (readonly [name: string, value: unknown])[]>> = {
  chat: [['n', 1]],
  responses: [
    ['n', 1],
    ['background', false],
    ['truncation', 'disabled'],
    ['context_management', []],
  ],
  messages: [
    ['n', 1],
    ['mcp_servers', []],
    ['context_management', { edits: [{ type: 'clear_thinking_20251015' }] }],
    ['inference_geo', 'global'],
    ['billing_policy', { type: 'billing_policy', bill_to: 'self' }],
  ],
  rerank: [
    ['rank_fields', ['text']],
    ['raw_scores', false],
    ['activation', true],
    ['use_activation', true],
  ],
}
describe.each(Object.keys(harmless) as Place[])('§35: a refused field may ask for what is so anyway: %s', (place) => {
  test.each(harmless[place] ?? [])('%s', async (name, value) => {
    expect((await doors.ask(place, given(place, name, value))).status).toBe(200)
  })
})
