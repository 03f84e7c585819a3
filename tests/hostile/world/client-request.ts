import { chunked } from './chunked.ts'
import type { BodyPlace, ClientTwist } from './client-twists.ts'
import type { ChunkStyle } from './node-twists.ts'
import { oddText } from './odd-json.ts'

/** Who asks, and for what. */
export interface Asking {
  readonly host: string
  readonly key: string
  readonly model: string
  readonly marker: string
  readonly stream: boolean
  readonly adminToken: string
}

/** A request that is right until twists change it. Texts are latin1, `§` stands for the marker. */
interface Draft {
  line: string
  hosts: string[]
  headers: string[]
  chunks: { sizes: readonly number[]; style: ChunkStyle } | null
  lengthOff: number
  members: Partial<Record<BodyPlace, string>>
  messages: number
  body: string | null
  behind: string
}

/** More than the gateway reads of a body. */
const messagesCharsMax = 10_000_000

function twisted(draft: Draft, twist: ClientTwist): void {
  switch (twist.kind) {
    case 'request line':
      draft.line = twist.line
      break
    case 'host':
      draft.hosts = twist.twice ? [...draft.hosts, twist.host] : [twist.host]
      break
    case 'no host':
      draft.hosts = []
      break
    case 'request header':
      for (let i = 0; i < twist.times; i++) draft.headers.push(twist.line)
      break
    case 'request chunks':
      draft.chunks = twist
      break
    case 'wrong length':
      draft.lengthOff = twist.by
      break
    case 'request JSON':
    case 'large request JSON':
      draft.members[twist.where] = oddText(twist.value)
      break
    case 'request body':
      draft.body = twist.text
      break
    case 'many messages':
      draft.messages = twist.count
      break
    case 'junk behind':
      draft.behind = twist.text
      break
    case 'other path':
      draft.line = `GET ${twist.target.replace('@', '/v1/admin/customers')} HTTP/1.1`
      draft.hosts = [twist.host]
  }
}

function bodyText({ members, messages }: Draft, { model, stream }: Asking): string {
  const { content = '"§"', role = '"user"', part, name } = members
  const said = part === undefined ? content : `[{"type":"text","text":"§"},${part}]`
  const message = `{"role":${role},"content":${said}${name === undefined ? '' : `,"name":${name}`}}`
  const copies = Math.min(messages, Math.floor(messagesCharsMax / message.length))
  const list = members.messages ?? `[${`${message},`.repeat(copies)}${message}]`
  const svc = members.mixture === undefined ? members.svc : `{"mixture":${members.mixture}}`
  const more = (['tools', 'max_tokens', 'stop', 'logit_bias', 'top'] as const)
    .filter((key) => members[key] !== undefined)
    .map((key) => `,"${key}":${members[key]}`)
  const own = svc === undefined ? '' : `,"svc":${svc}`
  return `{"model":${members.model ?? JSON.stringify(model)},"messages":${list},"stream":${members.stream ?? stream}${more.join('')}${own}}`
}

/** The bytes of one request. */
export function requestBytes(twists: readonly ClientTwist[], asking: Asking): Buffer {
  const draft: Draft = {
    line: 'POST /v1/api/chat/completions HTTP/1.1',
    hosts: [asking.host],
    headers: [],
    chunks: null,
    lengthOff: 0,
    members: {},
    messages: 0,
    body: null,
    behind: '',
  }
  for (const twist of twists) twisted(draft, twist)
  const filled = (text: string) => Buffer.from(text.replaceAll('§', asking.marker), 'latin1')
  const plain = filled(draft.body ?? bodyText(draft, asking))
  const body = draft.chunks === null ? plain : chunked(plain, { ...draft.chunks, trailers: '' })
  const admin = twists.some(({ kind }) => kind === 'other path')
  const lines = [
    draft.line,
    ...draft.hosts.map((host) => `Host: ${host}`),
    ...(admin ? [`X-SVC-Admin-Token: ${asking.adminToken}`] : [`Authorization: Bearer ${asking.key}`]),
    'Content-Type: application/json',
    draft.chunks === null
      ? `Content-Length: ${Math.max(0, body.length + draft.lengthOff)}`
      : 'Transfer-Encoding: chunked',
    ...draft.headers,
  ]
  return Buffer.concat([filled(`${lines.join('\r\n')}\r\n\r\n`), body, filled(draft.behind)])
}
