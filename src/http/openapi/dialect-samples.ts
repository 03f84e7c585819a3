import { keyConfigPath } from '../../protocol/sealed/ehbp.ts'
import { sealedNodesPath, sealedOperationPaths } from '../../protocol/wire/inference/sealed.ts'

const usage = { input_tokens: 9, output_tokens: 2 }

const text = { text: 'Hello from the workshop.' }
const picture = { created: 1_795_190_400, data: [{ b64_json: '(base64)' }] }

/** What is sealed has no form here. */
const sealedAnswers = Object.fromEntries(
  sealedOperationPaths.map((path) => [`${sealedNodesPath}/{node_id}${path}`, '(frames)']),
)

/** Answers whose format other vendors define, so we have no schema for them; a string means bytes. */
export const dialectAnswers: Readonly<Record<string, object | string>> = {
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
