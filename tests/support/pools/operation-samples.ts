import type { Operation } from '../../../src/actors/operations/operation.ts'
import { ollamaOperations, operations } from '../../../src/actors/operations/registry.ts'
import type { ScriptedCall } from '../nodes/scripted-node.ts'

/** One request of an operation that is in order, what a node says to it, and how the client sees that. */
export interface OperationSample {
  /** Of the node's list: what it is called says what it is for. */
  readonly model: string
  readonly body: object
  /** Bytes where it is passed on. */
  readonly answer: object | string
  readonly answerType?: string
  /** Events of a stream, up to its `[DONE]`; absent: the operation has none. */
  readonly events?: readonly object[]
  /** What the whole answer says was generated or given. */
  readonly shows: string
  /** Prompt and completion tokens that the node tells. */
  readonly usage: readonly [number, number]
}

const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 }
const chatChunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: 'n',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'n',
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
})
const chatAnswer = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'well said' }, finish_reason: 'stop' }],
  usage,
}
const chatEvents = [
  chatChunk({ role: 'assistant', content: 'well' }),
  chatChunk({ content: ' said' }),
  chatChunk({}, 'stop', { usage }),
]
const spoken = { answer: chatAnswer, events: chatEvents, shows: 'well said', usage: [7, 2] } as const
const messages = [{ role: 'user', content: 'speak' }]
const sound = new File(['la la la'], 'song.wav', { type: 'audio/wav' })
const heard = {
  answer: { text: 'well said', usage: { type: 'tokens', input_tokens: 7, output_tokens: 2, total_tokens: 9 } },
  shows: 'well said',
  usage: [7, 2],
} as const
const drawn = {
  answer: { created: 1, data: [{ b64_json: 'cGljdHVyZQ==' }], usage: { input_tokens: 7, output_tokens: 2 } },
  shows: 'cGljdHVyZQ==',
  usage: [7, 2],
} as const
const embedded = {
  model: 'text-embed',
  answer: { data: [{ index: 0, embedding: [0.25, 0.5] }], usage: { prompt_tokens: 7, total_tokens: 7 } },
  shows: '[0.25,0.5]',
  usage: [7, 0],
} as const

/** By the name of the operation; one without a sample fails the suite. */
export const samples: Readonly<Record<string, OperationSample>> = {
  chat: { model: 'writer', body: { messages }, ...spoken },
  completions: {
    model: 'writer',
    body: { prompt: 'speak', suffix: 'end' },
    answer: { choices: [{ index: 0, text: 'well said', finish_reason: 'stop', logprobs: null }], usage },
    events: [
      { choices: [{ index: 0, text: 'well', finish_reason: null }] },
      { choices: [{ index: 0, text: ' said', finish_reason: null }] },
      { choices: [{ index: 0, text: '', finish_reason: 'stop' }], usage },
    ],
    shows: 'well said',
    usage: [7, 2],
  },
  messages: { model: 'writer', body: { messages, max_tokens: 100 }, ...spoken },
  responses: { model: 'writer', body: { input: 'speak' }, ...spoken },
  ollama_chat: { model: 'writer', body: { messages, stream: false }, ...spoken },
  ollama_generate: { model: 'writer', body: { prompt: 'speak', stream: false }, ...spoken },
  ollama_embed: { ...embedded, body: { input: 'one' } },
  ollama_embeddings: { ...embedded, body: { prompt: 'one' } },
  embeddings: { ...embedded, body: { input: ['one'] } },
  transcriptions: { model: 'whisper-1', body: { file: sound, language: 'en' }, ...heard },
  translations: { model: 'whisper-1', body: { file: sound }, ...heard },
  speech: {
    model: 'tts-1',
    body: { input: 'speak', voice: 'alloy' },
    answer: 'sound: well said',
    answerType: 'audio/mpeg',
    shows: 'well said',
    usage: [2, 0],
  },
  image_generations: { model: 'flux.1', body: { prompt: 'a town' }, ...drawn },
  image_edits: { model: 'flux.1', body: { image: sound, prompt: 'a town' }, ...drawn },
  rerank: {
    model: 'text-rerank',
    body: { query: 'which', documents: ['one', 'two'] },
    answer: {
      results: [
        { index: 0, relevance_score: 0.25 },
        { index: 1, relevance_score: 0.75 },
      ],
      usage: { prompt_tokens: 7, total_tokens: 7 },
    },
    shows: '[{"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.25}]',
    usage: [7, 0],
  },
}

export function sampleOf({ name }: Operation): OperationSample {
  const sample = samples[name]
  if (sample === undefined) throw new Error(`no sample of ${name}`)
  return sample
}

export const streamed: readonly Operation[] = [...operations, ...ollamaOperations].filter(
  (operation) => operation.writer !== undefined,
)

/** Answers a call as the sample says, whole or as a stream, as it was asked. */
export async function play(call: ScriptedCall, sample: OperationSample): Promise<void> {
  const { answer, answerType = 'application/json', events = [] } = sample
  if (call.body.stream !== true) return call.respond(200, answer, { 'content-type': answerType })
  call.open()
  for (const event of events) await call.event(event)
  await call.event('[DONE]')
  call.end()
}
