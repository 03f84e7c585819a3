import type { ChunkStyle, Compression, Endless, Framing, JsonPlace, Second, Twist } from './node-twists.ts'
import { oddText } from './odd-json.ts'

/** What a request asks for; the model list is what a poll asks for. */
export type Wanted = 'whole' | 'stream' | 'models'

/** An answer that is right until twists change it. Texts are latin1, `§` stands for the marker. */
export interface Draft {
  before: string
  start: string
  headers: string[]
  framing: Framing
  sizes: readonly number[]
  style: ChunkStyle
  trailers: string
  compression: Compression | null
  members: Partial<Record<JsonPlace, string>>
  events: { at: number; text: string }[]
  body: string | null
  cut: Extract<Twist, { kind: 'cut short' }> | null
  second: Second | null
  pieces: Extract<Twist, { kind: 'in pieces' }> | null
  endless: Endless | null
  early: boolean
}

const usage = '{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}'

function applyTwist(draft: Draft, twist: Twist): void {
  switch (twist.kind) {
    case 'start line':
      draft.start = twist.line
      break
    case 'interim answers':
      draft.before += twist.text.repeat(twist.times)
      break
    case 'header':
      for (let i = 0; i < twist.times; i++) draft.headers.push(twist.line)
      break
    case 'framing':
      draft.framing = twist.how
      break
    case 'chunk sizes':
      draft.framing = 'chunked'
      draft.sizes = twist.sizes
      draft.style = twist.style
      break
    case 'trailer':
      draft.framing = 'chunked'
      draft.trailers += `${twist.line}\r\n`.repeat(twist.times)
      break
    case 'compression':
      draft.compression = twist.how
      break
    case 'JSON shape':
    case 'large JSON':
      draft.members[twist.where] = oddText(twist.value)
      break
    case 'usage lie':
      draft.members.usage = twist.usage
      break
    case 'event lines':
      draft.events.push(twist)
      break
    case 'other body':
      draft.body = twist.text
      break
    case 'cut short':
      draft.cut = twist
      break
    case 'second answer':
      draft.second = twist.how
      break
    case 'in pieces':
      draft.pieces = twist
      break
    case 'endless':
      draft.endless = twist.what
      break
    case 'early answer':
      draft.early = true
  }
}

function wholeBody({ members }: Draft): string {
  const {
    index = '0',
    finish = '"stop"',
    content = '"§"',
    message = '1',
    choice = '1',
    top = '1',
    svc = '{}',
  } = members
  const tool = members.tool === undefined ? '' : `,"tool_calls":${members.tool}`
  const said = `{"role":"assistant","content":${content},"reasoning":${message}${tool}}`
  return `{"id":"§","object":"chat.completion","choices":[{"index":${index},"message":${said},"finish_reason":${finish},"logprobs":${choice}}],"usage":${members.usage ?? usage},"svc":${svc},"x":${top}}`
}

function streamBody({ members, events }: Draft): string {
  const {
    index = '0',
    finish = '"stop"',
    content = '"§"',
    message = '1',
    choice = '1',
    top = '1',
    svc = '{}',
  } = members
  const tool = members.tool === undefined ? '' : `,"tool_calls":${members.tool}`
  const chunk = (delta: string, end: string, more = '') =>
    `data: {"id":"§","choices":[{"index":${index},"delta":${delta},"finish_reason":${end},"logprobs":${choice}}]${more}}`
  const all = [
    chunk('{"role":"assistant","content":""}', 'null'),
    chunk(`{"content":${content}}`, 'null'),
    chunk(`{"content":"§","reasoning":${message}${tool}}`, 'null', `,"x":${top}`),
    chunk('{"content":"§"}', 'null'),
    chunk('{}', finish, `,"usage":${members.usage ?? usage},"svc":${svc}`),
    'data: [DONE]',
  ]
  for (const { at, text } of events) all.splice(at, 0, text)
  return all.map((event) => `${event}\n\n`).join('')
}

function modelsBody({ members }: Draft): string {
  const {
    index = '1',
    content = '"m"',
    message = '1',
    choice = '1',
    top = '1',
    svc = '{}',
    usage: said = '1',
  } = members
  return `{"object":"list","data":[{"id":${content},"max_model_len":${said},"meta":${message},"status":${choice},"n":${index}}],"models":${svc},"x":${top}}`
}

const bodies = { whole: wholeBody, stream: streamBody, models: modelsBody }

/** `§` is the marker. */
export const filled = (text: string, marker: string) => Buffer.from(text.replaceAll('§', marker), 'latin1')

/** Before it is compressed or framed. */
export function plainBody(draft: Draft, wanted: Wanted, marker: string): Buffer {
  return filled(draft.body ?? bodies[wanted](draft), marker)
}

/** The body of such an answer, as it is before anything is framed. */
export function bodyOf(twists: readonly Twist[], wanted: Wanted, marker: string): Buffer {
  return plainBody(drafted(twists, wanted), wanted, marker)
}

/** The answer that is twisted so. */
export function drafted(twists: readonly Twist[], wanted: Wanted): Draft {
  const draft: Draft = {
    before: '',
    start: 'HTTP/1.1 200 OK',
    headers: [],
    framing: wanted === 'stream' ? 'chunked' : 'length',
    sizes: [],
    style: 'plain',
    trailers: '',
    compression: null,
    members: {},
    events: [],
    body: null,
    cut: null,
    second: null,
    pieces: null,
    endless: null,
    early: false,
  }
  for (const twist of twists) applyTwist(draft, twist)
  return draft
}
