import type { ChunkStyle, Compression, Endless, Framing, JsonPlace, Second, Twist } from './node-twists.ts'
import { oddText } from './odd-json.ts'
import { type Quote, type QuotePlaceText, quoted, quotePlaces, type Told } from './quoting.ts'

/** What a request asks for; the model list is what a poll asks for. */
export type Wanted = 'whole' | 'stream' | 'transcript' | 'transcript events' | 'models'

/** An answer that is right until twists change it. Texts are latin1; what `§`, `¶` and `¬` stand for, `filled` says. */
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
  quote: Quote | null
  /** The name of one model more. */
  model: string | null
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
      break
    case 'quoting':
      // Of a name that is cut off nothing is promised: what is left of the key is a name like others.
      draft.quote =
        twist.where === 'the name of a model' && twist.form === 'cut off' ? { ...twist, form: 'the value' } : twist
      quoteAt(draft, quotePlaces[twist.where])
  }
}

function quoteAt(draft: Draft, place: QuotePlaceText): void {
  const { start, body, event, header, trailer, usage, svc, model = null } = place
  draft.model = model
  if (start !== undefined) draft.start = start
  if (body !== undefined) draft.body = body
  if (event !== undefined) draft.events.push({ at: 2, text: event })
  if (header !== undefined) draft.headers.push(header)
  if (trailer !== undefined) draft.trailers += `${trailer}\r\n`
  if (usage !== undefined) draft.members.usage = usage
  if (svc !== undefined) draft.members.svc = svc
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

function modelsBody({ members, model }: Draft): string {
  const {
    index = '1',
    content = '"m"',
    message = '1',
    choice = '1',
    top = '1',
    svc = '{}',
    usage: said = '1',
  } = members
  const more = model === null ? '' : `{"id":"${model}"},`
  return `{"object":"list","data":[${more}{"id":${content},"max_model_len":${said},"meta":${message},"status":${choice},"n":${index}}],"models":${svc},"x":${top}}`
}

function transcriptBody({ members }: Draft): string {
  const { content = '"§"', message = '1', top = '1' } = members
  return `{"text":${content},"words":${message},"usage":${members.usage ?? usage},"x":${top}}`
}

function transcriptEvents({ members, events }: Draft): string {
  const { content = '"§"', top = '1' } = members
  const all = [
    `data: {"type":"transcript.text.delta","delta":${content}}`,
    'data: {"type":"transcript.text.delta","delta":"§"}',
    `data: {"type":"transcript.text.done","text":"§","usage":${members.usage ?? usage},"x":${top}}`,
  ]
  for (const { at, text } of events) all.splice(at, 0, text)
  return all.map((event) => `${event}\n\n`).join('')
}

const bodies = {
  whole: wholeBody,
  stream: streamBody,
  transcript: transcriptBody,
  'transcript events': transcriptEvents,
  models: modelsBody,
}
/** Of an answer in events, and of any other. */
export const typeOf = (wanted: Wanted): string =>
  wanted === 'stream' || wanted === 'transcript events' ? 'text/event-stream' : 'application/json'

/** Writes the bytes of a text: `§` is the marker, `¶` what is quoted, `¬` the same within a text of JSON. */
export type Fill = (text: string) => Buffer

export function fillOf({ quote }: Draft, { marker, confided }: Told): Fill {
  const said = quote === null || confided === null ? '' : quoted(quote, confided)
  const inJson = JSON.stringify(said).slice(1, -1)
  return (text) =>
    Buffer.from(
      text
        .replaceAll('§', marker)
        .replaceAll('¶', () => said)
        .replaceAll('¬', () => inJson),
      'latin1',
    )
}

/** Before it is compressed or framed. */
export function plainBody(draft: Draft, wanted: Wanted, fill: Fill): Buffer {
  return fill(draft.body ?? bodies[wanted](draft))
}

/** The answer that is twisted so. */
export function drafted(twists: readonly Twist[], wanted: Wanted): Draft {
  const draft: Draft = {
    before: '',
    start: 'HTTP/1.1 200 OK',
    headers: [],
    framing: typeOf(wanted) === 'text/event-stream' ? 'chunked' : 'length',
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
    quote: null,
    model: null,
  }
  for (const twist of twists) applyTwist(draft, twist)
  return draft
}
