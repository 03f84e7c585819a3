import { keyConfigPath } from '../../protocol/sealed/ehbp.ts'
import { sealedNodesPath, sealedOperationPaths } from '../../protocol/wire/inference/sealed.ts'
import type { JsonObject } from './schema.ts'

const usage = { input_tokens: 9, output_tokens: 2 }

const text = { text: 'Hello from the workshop.' }
const picture = { created: 1_795_190_400, data: [{ b64_json: '(base64)' }] }

/** What is sealed has no form here. */
const sealedAnswers = Object.fromEntries(
  sealedOperationPaths.map((path) => [`${sealedNodesPath}/{node_id}${path}`, '(frames)']),
)

/** Answers whose format other vendors define, so we have no schema for them; a string means bytes. */
const dialectAnswers: Readonly<Record<string, object | string>> = {
  ...sealedAnswers,
  [`${sealedNodesPath}/{node_id}${keyConfigPath}`]: '(41 bytes)',
  '/v1/api/audio/transcriptions': text,
  '/v1/api/audio/translations': text,
  '/v1/api/audio/speech': '(audio)',
  '/v1/api/images/generations': picture,
  '/v1/api/images/edits': picture,
  '/v1/api/messages': {
    id: 'msg_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
    type: 'message',
    role: 'assistant',
    model: 'llama-3.1-8b',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage,
  },
  '/v1/api/responses': {
    id: 'resp_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
    object: 'response',
    created_at: 1_795_190_400,
    status: 'completed',
    model: 'llama-3.1-8b',
    output: [
      {
        id: 'msg_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
      },
    ],
    usage: { ...usage, total_tokens: 11 },
  },
}

const event = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`
const completion = (choice: object, more: object = {}) => {
  const head = { id: 'cmpl-01M7XP7Z5B6Y2V0Q3T8N4K9RWS', object: 'text_completion', created: 1_795_190_400 }
  const choices = [{ index: 0, text: '', logprobs: null, finish_reason: null, ...choice }]
  return `data: ${JSON.stringify({ ...head, model: 'llama-3.1-8b', choices, ...more })}\n\n`
}
const completionUsage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }

/** What `stream: true` gives, by the canonical path; chat has its own transcripts. */
const dialectStreams: Readonly<Record<string, string>> = {
  '/v1/api/completions': `${completion({ text: 'Hi' })}${completion({ finish_reason: 'stop' }, { usage: completionUsage })}data: [DONE]\n\n`,
  '/v1/api/messages':
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }) + event('message_stop', {}),
  '/v1/api/responses': event('response.output_text.delta', { output_index: 0, content_index: 0, delta: 'Hi' }),
}

/** Answers in the form of another API have no schema here, and OpenAPI 3.1 has none for an event of a stream. */
export function inDialect(path: string, answer: JsonObject): JsonObject {
  const [foreign, stream] = [dialectAnswers[path], dialectStreams[path]]
  const whole =
    foreign === undefined
      ? (answer.content as JsonObject | undefined)
      : typeof foreign === 'string'
        ? { 'application/octet-stream': { schema: { type: 'string' }, example: foreign } }
        : { 'application/json': { schema: { type: 'object' }, example: foreign } }
  if (foreign === undefined && stream === undefined) return answer
  const schema = { type: 'string', description: 'Server-sent events, with `stream: true`' }
  const events = stream === undefined ? {} : { 'text/event-stream': { schema, example: stream } }
  return { ...answer, content: { ...whole, ...events } }
}
