import { leastOf } from './secrets.ts'

/** What a node knows of the request that it answers. */
export interface Told {
  readonly marker: string
  /** The header by which it was told something in confidence; null: it was told nothing. */
  readonly confided: Confided | null
}

export interface Confided {
  readonly name: string
  /** The whole value. */
  readonly value: string
  /** Of the value: the key, or the signature. */
  readonly secret: string
}

export const toldNothing: Told = { marker: '', confided: null }

/**
 * The spellings that §5 promises to strike. It does not promise others, since a node that wants to can say a secret in a way that
 * nobody recognizes: backwards, in hexadecimal, with letters apart, in base64 twice, its end alone. Nor does it promise anything
 * about the model's words: what a node says as `content` is an answer.
 */
export const quoteForms = [
  'the header',
  'the value',
  'the secret alone',
  'in capitals',
  'JSON',
  'JSON in JSON',
  'escapes',
  'escapes in JSON',
  'half in escapes',
  'slashes behind backslashes',
  'URL',
  'URL, every character',
  'the secret alone in a URL',
  'the secret alone in escapes',
  'base64',
  'base64 of a URL',
  'cut off',
] as const
export type QuoteForm = (typeof quoteForms)[number]

export interface Quote {
  readonly form: QuoteForm
  /** Bytes before it, which move the groups of base64. */
  readonly shift: 0 | 1 | 2
}

const hex = (each: string, digits: number) => each.charCodeAt(0).toString(16).padStart(digits, '0')
const escapes = (text: string) => [...text].map((each) => `\\u${hex(each, 4)}`).join('')
const percents = (text: string) => [...text].map((each) => `%${hex(each, 2)}`).join('')

/** What was confided, in one of the promised spellings. */
export function quoted({ form, shift }: Quote, { name, value, secret }: Confided): string {
  const line = `${name}: ${value}`
  const base64 = Buffer.from('x'.repeat(shift) + value).toString('base64')
  switch (form) {
    case 'the header':
      return line
    case 'the value':
      return value
    case 'the secret alone':
      return secret
    case 'the secret alone in a URL':
      return percents(secret)
    case 'the secret alone in escapes':
      return escapes(secret)
    case 'in capitals':
      return line.toUpperCase()
    case 'JSON':
      return JSON.stringify({ [name]: value })
    case 'JSON in JSON':
      return JSON.stringify(JSON.stringify({ [name]: value }))
    case 'escapes':
      return escapes(value)
    case 'escapes in JSON':
      return JSON.stringify(escapes(value))
    case 'half in escapes':
      return value.slice(0, -secret.length >> 1) + escapes(value.slice(-secret.length >> 1))
    case 'slashes behind backslashes':
      return line.replaceAll('/', '\\/')
    case 'URL':
      return `?a=${encodeURIComponent(value)}&b`
    case 'URL, every character':
      return percents(value)
    case 'base64':
      return base64
    case 'base64 of a URL':
      return base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    case 'cut off':
      return `${name}: ${value.slice(0, value.indexOf(secret))}${leastOf(secret)}`
  }
}

/** Where a node says it. In a text `¶` stands for it, and `¬` for it within a text of JSON. */
export const quotePlaces = {
  'an error': { start: 'HTTP/1.1 400 Bad', body: '{"error":{"message":"no template for ¬","type":"x","code":400}}' },
  'an error without an object': { start: 'HTTP/1.1 413 Large', body: '{"error":"too large: ¬"}' },
  'an error that is no JSON': { start: 'HTTP/1.1 400 Bad', body: 'bad request: ¶' },
  'details of an error': { start: 'HTTP/1.1 422 No', body: '{"detail":[{"msg":"odd field in ¬"}]}' },
  'an error of pictures': {
    start: 'HTTP/1.1 500 No',
    body: '{"error":{"message":"images are not supported, ¬","type":"server"}}',
  },
  'an error of the context': {
    start: 'HTTP/1.1 400 Bad',
    body: '{"error":{"message":"¬ the maximum context length is 5","type":"exceed_context_size_error","n_ctx":5}}',
  },
  'an error of the node': { start: 'HTTP/1.1 503 Busy', body: '{"error":{"message":"busy: ¬"}}' },
  'an error under a 200': { body: '{"error":{"message":"no: ¬","type":"invalid_request_error","code":400}}' },
  'an error event': { body: 'data: {"error":{"message":"no: ¬","type":"x","code":400}}\n\n' },
  'an error event behind words': {
    event: 'data: {"error":{"message":"no: ¬","type":"invalid_request_error","code":400}}',
  },
  'an error line': { event: 'error: {"message":"no: ¬","type":"invalid_request_error","code":400}' },
  'an event called error': { event: 'event: error\ndata: {"message":"no: ¬","code":400}' },
  'a comment': { event: ': ¶' },
  'names of an event': { event: 'event: ¶\nid: ¶\nretry: ¶' },
  'a line that is no event': { event: '¶' },
  'other members': {
    event:
      'data: {"id":"¬","model":"¬","system_fingerprint":"¬","debug":"¬","¬":1,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"¬"}]}',
  },
  'the reason of the status': { start: 'HTTP/1.1 500 ¶' },
  'the value of a header': { header: 'X-Debug: ¶' },
  'the name of a header': { header: '¶: x' },
  'the type of the content': { header: 'Content-Type: text/x-¶' },
  'when to try again': { start: 'HTTP/1.1 429 Slow', header: 'Retry-After: ¶' },
  'a redirect': { start: 'HTTP/1.1 307 Moved', header: 'Location: http://127.0.0.1:9/?¶' },
  'a trailer': { trailer: 'X-Debug: ¶' },
  'the usage': { usage: '{"prompt_tokens":"¬","completion_tokens":7,"¬":"¬"}' },
  'the name of a model': { model: 'm-¬' },
  'a member of ours': { svc: '{"receipt":"¬","error":{"message":"¬"},"node_id":"¬"}' },
} as const satisfies Readonly<Record<string, QuotePlaceText>>
export type QuotePlace = keyof typeof quotePlaces

export interface QuotePlaceText {
  readonly start?: string
  readonly body?: string
  readonly event?: string
  readonly header?: string
  readonly trailer?: string
  readonly usage?: string
  readonly svc?: string
  /** In the list of models, which is what a poll asks for. */
  readonly model?: string
}
