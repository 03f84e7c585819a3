import fc from 'fast-check'
import { chunked } from './chunked.ts'
import { requestHeaders } from './client-words.ts'
import { type ChunkStyle, chunkStyles } from './node-twists.ts'
import { type Kinds, twistsOf } from './twists.ts'

/** One thing that is wrong with a form. `§` in a text stands for its marker, `@` for its boundary. */
export type FormTwist =
  | { readonly kind: 'form: content type'; readonly type: string }
  | { readonly kind: 'form: preamble'; readonly text: string; readonly times: number }
  | { readonly kind: 'form: part'; readonly head: string; readonly times: number; readonly first: boolean }
  | { readonly kind: 'form: model'; readonly text: string }
  | { readonly kind: 'form: no model' }
  | { readonly kind: 'form: model first' }
  | { readonly kind: 'form: file'; readonly text: string; readonly bytes: number }
  | { readonly kind: 'form: end'; readonly text: string }
  | { readonly kind: 'form: unfinished'; readonly keepPermille: number; readonly halfClose: boolean }
  | { readonly kind: 'form: slow'; readonly atPermille: readonly number[]; readonly pauseMs: number }
  | { readonly kind: 'form: chunks'; readonly sizes: readonly number[]; readonly style: ChunkStyle }
  | { readonly kind: 'form: wrong length'; readonly by: number }
  | { readonly kind: 'form: header'; readonly line: string }

const contentTypes = [
  'multipart/form-data',
  'multipart/form-data; boundary=',
  'multipart/form-data; boundary=""',
  'multipart/form-data; boundary="@"',
  'multipart/form-data; boundary=another',
  'multipart/form-data; boundary=@; boundary=another',
  'multipart/form-data; boundary=@; charset=utf-8',
  'multipart/mixed; boundary=@',
  'application/x-www-form-urlencoded',
  'application/json',
  `multipart/form-data; boundary=${'b'.repeat(71)}`,
  'multipart/form-data; boundary=§',
  'multipart/form-data; boundary=\xff',
]

const preambles = ['', '\r\n', '§', '--', '--@', '--@--', '--another\r\n', '\0', '\xff\xfe', ' ']

const partHeads = [
  '',
  '§',
  ': §',
  'Content-Disposition: form-data',
  'Content-Disposition: form-data; name=""',
  'Content-Disposition: form-data; name=prompt',
  'Content-Disposition: form-data; name="prompt"',
  'Content-Disposition: form-data; name="§"',
  'Content-Disposition: form-data; name="model"',
  'Content-Disposition: form-data; name="Model"',
  'Content-Disposition: form-data; name="model[]"',
  'Content-Disposition: form-data; name="model "',
  'Content-Disposition: form-data; name="svc"',
  'Content-Disposition: form-data; name="__proto__"',
  'Content-Disposition: form-data; name="stream"',
  'Content-Disposition: form-data; name="file"; filename="../../§"',
  'Content-Disposition: form-data; name="file"; filename="a"; filename="b"',
  'Content-Disposition: form-data; name="file"; filename="a\\"; name="model"',
  'Content-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"',
  'Content-Disposition: form-data; name="x"\r\nContent-Type: §',
  'Content-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64',
  'Content-Disposition: form-data; name="x"\r\nContent-Length: 99999999',
  'Content-Disposition: form-data; name="x"\r\n folded: y',
  'Content-Disposition: form-data; name="x"\nContent-Type: text/plain',
  'Content-Disposition: attachment; name="model"',
  'content-disposition: FORM-DATA; name="x"',
  `Content-Disposition: form-data; name="${'n'.repeat(5_000)}"`,
]

const models = ['', '§', ' ', '*', 'm'.repeat(300), '\xff', 'a\r\nb', '\0', '--@', '\r\n--@', '\r\n--@--\r\n']
const ends = [
  '',
  '--',
  '\r\n--@',
  '\r\n--@-',
  '\r\n--@-x',
  '\r\n--@\r\n',
  '\r\n--@--',
  '\r\n--@--\r\n§',
  '\r\n--@--\r\n--@\r\n',
]
const fillers = ['a', '\0', '\r\n', '\r\n--', '\r\n--@'.slice(0, 4), '\r\n-', '--@', '{"a":', '§']

const permille = fc.nat(1_000)
const few = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.integer({ min: 1, max: 90 }))
/** Above 256 KiB a form goes on while it comes; above 25 MiB it is refused. */
const fileBytes = fc.oneof(
  { weight: 20, arbitrary: fc.nat(3_000) },
  { weight: 3, arbitrary: fc.nat(600_000) },
  { weight: 1, arbitrary: fc.nat(27_000_000) },
)

const kinds: Kinds<FormTwist> = {
  'form: content type': [8, { type: fc.constantFrom(...contentTypes) }],
  'form: preamble': [6, { text: fc.constantFrom(...preambles), times: fc.oneof(few, fc.nat(3_000)) }],
  'form: part': [24, { head: fc.constantFrom(...partHeads), times: few, first: fc.boolean() }],
  'form: model': [8, { text: fc.constantFrom(...models) }],
  'form: no model': [3, {}],
  'form: model first': [4, {}],
  'form: file': [14, { text: fc.constantFrom(...fillers), bytes: fileBytes }],
  'form: end': [10, { text: fc.constantFrom(...ends) }],
  'form: unfinished': [8, { keepPermille: permille, halfClose: fc.boolean() }],
  'form: slow': [
    6,
    { atPermille: fc.array(permille, { minLength: 1, maxLength: 5 }), pauseMs: fc.constantFrom(0, 1, 10) },
  ],
  'form: chunks': [
    6,
    {
      sizes: fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }),
      style: fc.constantFrom(...chunkStyles),
    },
  ],
  'form: wrong length': [5, { by: fc.integer({ min: -40, max: 40 }) }],
  'form: header': [5, { line: fc.constantFrom(...requestHeaders) }],
}

export const formTwists = twistsOf(kinds)

/** Who sends a form, and where. */
export interface FormAsking {
  readonly host: string
  readonly key: string
  readonly model: string
  readonly marker: string
}

interface Part {
  readonly head: string
  readonly body: string
}

/** A form that is right until twists change it, in latin1. */
interface FormDraft {
  type: string
  preamble: string
  model: Part | null
  modelFirst: boolean
  before: Part[]
  file: string
  after: Part[]
  end: string
  chunks: { readonly sizes: readonly number[]; readonly style: ChunkStyle } | null
  lengthOff: number
  headers: string[]
}

const field = (name: string, body: string): Part => ({ head: `Content-Disposition: form-data; name="${name}"`, body })

function twisted(draft: FormDraft, twist: FormTwist): void {
  switch (twist.kind) {
    case 'form: content type':
      draft.type = twist.type
      break
    case 'form: preamble':
      draft.preamble = twist.text.repeat(twist.times)
      break
    case 'form: part':
      for (let i = 0; i < twist.times; i++)
        (twist.first ? draft.before : draft.after).push({ head: twist.head, body: '§' })
      break
    case 'form: model':
      draft.model = field('model', twist.text)
      break
    case 'form: no model':
      draft.model = null
      break
    case 'form: model first':
      draft.modelFirst = true
      break
    case 'form: file':
      draft.file = `§${twist.text.repeat(Math.ceil(twist.bytes / twist.text.length))}`
      break
    case 'form: end':
      draft.end = twist.text
      break
    case 'form: chunks':
      draft.chunks = twist
      break
    case 'form: wrong length':
      draft.lengthOff = twist.by
      break
    case 'form: header':
      draft.headers.push(twist.line)
  }
}

/** The bytes of one request with a form. */
export function formBytes(twists: readonly FormTwist[], { host, key, model, marker }: FormAsking): Buffer {
  const draft: FormDraft = {
    type: 'multipart/form-data; boundary=@',
    preamble: '',
    model: field('model', model),
    modelFirst: false,
    before: [],
    file: '§',
    after: [],
    end: '\r\n--@--\r\n',
    chunks: null,
    lengthOff: 0,
    headers: [],
  }
  for (const twist of twists) twisted(draft, twist)
  const boundary = `form-${marker.length}-boundary`
  const filled = (text: string) => Buffer.from(text.replaceAll('§', marker).replaceAll('@', boundary), 'latin1')
  const file: Part = { head: 'Content-Disposition: form-data; name="file"; filename="a.wav"', body: draft.file }
  const named = draft.model === null ? [] : [draft.model]
  const ordered = draft.modelFirst ? [...named, ...draft.before, file] : [...draft.before, file, ...named]
  const parts = [...ordered, ...draft.after].map(({ head, body }) => `--@\r\n${head}\r\n\r\n${body}`)
  const plain = filled(`${draft.preamble}${parts.join('\r\n')}${draft.end}`)
  const body = draft.chunks === null ? plain : chunked(plain, { ...draft.chunks, trailers: '' })
  const lines = [
    'POST /v1/audio/transcriptions HTTP/1.1',
    `Host: ${host}`,
    `Authorization: Bearer ${key}`,
    `Content-Type: ${draft.type}`,
    draft.chunks === null
      ? `Content-Length: ${Math.max(0, body.length + draft.lengthOff)}`
      : 'Transfer-Encoding: chunked',
    ...draft.headers,
  ]
  return Buffer.concat([filled(`${lines.join('\r\n')}\r\n\r\n`), body])
}
