/** Who asks: for nothing, for money, or within limits. */
export type Payer = 'free' | 'payer' | 'limited'
/** What stands behind the model. */
export type Place = 'own' | 'two' | 'limited' | 'few' | 'sold' | 'dialled'

export interface Kind {
  readonly path: string
  readonly place: Place
  readonly body: object
  readonly by?: Payer
  /** Stands in a good answer. */
  readonly end: string
}

export const chatPath = '/v1/chat/completions'
const answered = '"finish_reason":"stop"'
const done = 'data: [DONE]'
const experts = [{ model: 'quick' }, { model: 'quick' }, { model: 'quick' }]

export const collectedKinds = {
  'a whole answer': { path: chatPath, place: 'own', body: { model: 'quick' }, end: answered },
  'a stream': { path: chatPath, place: 'own', body: { model: 'quick', stream: true }, end: done },
  'paid, whole': { path: chatPath, place: 'sold', body: { model: 'paid', max_tokens: 20 }, by: 'payer', end: answered },
  'paid, a stream': {
    path: chatPath,
    place: 'sold',
    body: { model: 'paid', max_tokens: 20, stream: true },
    by: 'payer',
    end: done,
  },
  embeddings: { path: '/v1/embeddings', place: 'own', body: { model: 'quick-embedding' }, end: '"embedding"' },
  'Responses, whole': { path: '/v1/responses', place: 'own', body: { model: 'quick' }, end: '"completed"' },
  'Responses, a stream': {
    path: '/v1/responses',
    place: 'own',
    body: { model: 'quick', stream: true },
    end: 'response.completed',
  },
  'Messages, whole': { path: '/v1/messages', place: 'own', body: { model: 'quick', max_tokens: 100 }, end: 'end_turn' },
  'Messages, a stream': {
    path: '/v1/messages',
    place: 'own',
    body: { model: 'quick', max_tokens: 100, stream: true },
    end: 'event: message_stop',
  },
  'within limits': {
    path: chatPath,
    place: 'limited',
    body: { model: 'limited', stream: true },
    by: 'limited',
    end: done,
  },
  'over a tunnel': { path: chatPath, place: 'dialled', body: { model: 'dialled', stream: true }, end: done },
  'a choice of two nodes': { path: chatPath, place: 'two', body: { model: 'two', stream: true }, end: done },
  'a wait for a slot': { path: chatPath, place: 'few', body: { model: 'few', stream: true }, end: done },
  'a mixture of three': {
    path: chatPath,
    place: 'own',
    body: { model: 'any', svc: { mixture: { strategy: 'vote', experts } } },
    end: answered,
  },
} as const satisfies Readonly<Record<string, Kind>>
export type CollectedKind = keyof typeof collectedKinds
