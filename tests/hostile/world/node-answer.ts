import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { type Draft, drafted, type Fill, fillOf, plainBody, typeOf, type Wanted } from './answer-draft.ts'
import { goodCompletion, type Move, type Play } from './bytes-node.ts'
import { chunked } from './chunked.ts'
import type { Compression, Endless, Framing, Second, Twist } from './node-twists.ts'
import type { Told } from './quoting.ts'

/** As much as a whole answer may be. */
const bombBytes = 16 * 1024 * 1024
const floodBytesMax = 6 * 1024 * 1024

function compressed(how: Compression, body: Buffer): { name: string; bytes: Buffer } {
  switch (how) {
    case 'gzip':
    case 'x-gzip':
    case 'GZIP':
      return { name: how, bytes: gzipSync(body) }
    case 'deflate':
      return { name: how, bytes: deflateSync(body) }
    case 'br':
      return { name: how, bytes: brotliCompressSync(body) }
    case 'zstd':
      return { name: how, bytes: zstdCompressSync(body) }
    case 'gzip twice':
      return { name: 'gzip, gzip', bytes: gzipSync(gzipSync(body)) }
    case 'unknown':
      return { name: 'compress', bytes: body }
    case 'lie':
      return { name: 'gzip', bytes: body }
    case 'cut':
      return { name: 'gzip', bytes: gzipSync(body).subarray(0, -9) }
    case 'garbage behind':
      return { name: 'gzip', bytes: Buffer.concat([gzipSync(body), Buffer.from('garbage')]) }
    case 'bomb':
      return { name: 'gzip', bytes: bomb() }
  }
}

let bombMade: Buffer | null = null
function bomb(): Buffer {
  bombMade ??= gzipSync(Buffer.alloc(bombBytes, 32))
  return bombMade
}

const lengthHeaders: Partial<Record<Framing, (length: number) => readonly string[]>> = {
  length: (n) => [`Content-Length: ${n}`],
  'length twice': (n) => [`Content-Length: ${n}`, `Content-Length: ${n}`],
  'two lengths': (n) => [`Content-Length: ${n}`, `Content-Length: ${n + 1}`],
  'length list': (n) => [`Content-Length: ${n}, ${n}`],
  'too long': (n) => [`Content-Length: ${n + 50}`],
  'too short': (n) => [`Content-Length: ${Math.max(0, n - 20)}`],
  negative: (n) => [`Content-Length: -${n}`],
  signed: (n) => [`Content-Length: +${n}`],
  'hex length': (n) => [`Content-Length: 0x${n.toString(16)}`],
  'huge length': () => ['Content-Length: 99999999999999999999'],
  'no length': () => [],
  chunked: () => ['Transfer-Encoding: chunked'],
  'chunked and length': (n) => ['Transfer-Encoding: chunked', `Content-Length: ${n}`],
  'chunked twice': () => ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
  'Chunked, identity': () => ['Transfer-Encoding: Chunked, identity'],
  'gzip, chunked': () => ['Transfer-Encoding: gzip, chunked'],
  'chunked in HTTP/1.0': () => ['Transfer-Encoding: chunked'],
  'until close': () => ['Connection: close'],
}

function wire(draft: Draft, wanted: Wanted, fill: Fill): Buffer {
  const plain = plainBody(draft, wanted, fill)
  const coded = draft.compression === null ? null : compressed(draft.compression, plain)
  const bytes = coded?.bytes ?? plain
  const trailers = fill(draft.trailers).toString('latin1')
  const framed = /hunked/.test(draft.framing) ? chunked(bytes, { ...draft, trailers }) : bytes
  const lines = [
    draft.start,
    `Content-Type: ${typeOf(wanted)}`,
    ...(coded === null ? [] : [`Content-Encoding: ${coded.name}`]),
    ...(lengthHeaders[draft.framing]?.(bytes.length) ?? []),
    ...draft.headers,
  ]
  const head = fill(`${draft.before}${lines.join('\r\n')}\r\n\r\n`)
  return Buffer.concat([head, framed])
}

function secondAnswer(how: Second, marker: string): Buffer {
  if (how.endsWith('junk')) return Buffer.from(`junk ${marker}\r\n\r\n`)
  const body = goodCompletion(marker)
  const one = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  if (how.endsWith('half')) return Buffer.from(one.slice(0, one.length >> 1))
  return Buffer.from(how === 'glued thrice' ? one + one : one)
}

function inPieces(bytes: Buffer, { pieces }: Draft): readonly Move[] {
  if (pieces === null) return [{ do: 'write', bytes }]
  const places = pieces.atPermille.map((at) => Math.floor((bytes.length * at) / 1_000)).sort((a, b) => a - b)
  const moves: Move[] = []
  let from = 0
  for (const to of [...places, bytes.length]) {
    if (to === from) continue
    moves.push({ do: 'write', bytes: bytes.subarray(from, to) }, { do: 'wait', ms: pieces.pauseMs })
    from = to
  }
  return moves
}

const streamHead = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
const floods: Readonly<Record<Endless, readonly [begin: string, again: string]>> = {
  interim: ['', 'HTTP/1.1 100 Continue\r\n\r\n'],
  header: ['HTTP/1.1 200 OK\r\n', 'X-Note: §\r\n'],
  trailer: [`${streamHead}0\r\n`, 'X-Note: §\r\n'],
  extension: [`${streamHead}1`, ';x=§'],
  comment: [streamHead, '17\r\n: §\n\r\n'],
  line: [`${streamHead}6\r\ndata: \r\n`, '14\r\n§\r\n'],
  'tiny chunks': [streamHead, '1\r\n:\r\n'],
  tokens: [
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n',
    'data: {"choices":[{"index":0,"delta":{"content":"§"},"finish_reason":null}]}\n\n',
  ],
}
const floodWriteBytes = 64 * 1024

function flood(what: Endless, fill: Fill): readonly Move[] {
  const [begin, again] = floods[what]
  const one = fill(again).toString('latin1')
  const bytes = Buffer.from(one.repeat(Math.ceil(floodWriteBytes / one.length)), 'latin1')
  return [
    { do: 'write', bytes: fill(begin) },
    { do: 'flood', bytes, bytesMax: floodBytesMax },
  ]
}

function movesOf(draft: Draft, wanted: Wanted, told: Told): readonly Move[] {
  const fill = fillOf(draft, told)
  if (draft.endless !== null) return flood(draft.endless, fill)
  let bytes = wire(draft, wanted, fill)
  const { marker } = told
  const { cut, second } = draft
  if (cut !== null) bytes = bytes.subarray(0, Math.floor((bytes.length * cut.keepPermille) / 1_000))
  if (second?.startsWith('glued') === true) bytes = Buffer.concat([bytes, secondAnswer(second, marker)])
  const moves = [...inPieces(bytes, draft)]
  if (second?.startsWith('late') === true) {
    moves.push({ do: 'quiet' }, { do: 'write', bytes: secondAnswer(second, marker) })
  }
  if (cut !== null && cut.behind !== 'silence') moves.push({ do: cut.behind })
  else if (draft.framing === 'until close') moves.push({ do: 'end' })
  return moves
}

/** What a node does that is twisted so. */
export function playOf(twists: readonly Twist[], wanted: Wanted): Play {
  const draft = drafted(twists, wanted)
  return { early: draft.early, moves: (told) => movesOf(draft, wanted, told) }
}
