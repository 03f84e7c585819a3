const usage = { input_tokens: 9, output_tokens: 2 }

const heard = { text: 'Hello.' }
const drawn = { created: 1_795_190_400, data: [{ b64_json: 'iVBORw0KGgo=' }] }

/** Answers whose form belongs to others, and so have no schema here. */
export const dialectAnswers: Readonly<Record<string, object>> = {
  '/v1/api/audio/transcriptions': heard,
  '/v1/api/audio/translations': heard,
  '/v1/api/images/generations': drawn,
  '/v1/api/images/edits': drawn,
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
