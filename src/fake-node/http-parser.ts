export interface HttpRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ParseState {
  /** Bytes that came and belong to no complete request yet. */
  pending: Buffer
}

const headBytesMax = 64 * 1024
const bodyBytesMax = 128 * 1024 * 1024

/** Takes the first complete request out of `state.pending`. */
export function parseRequest(state: ParseState): HttpRequest | 'incomplete' | 'malformed' {
  const headEnd = state.pending.indexOf('\r\n\r\n')
  if (headEnd < 0) return state.pending.length > headBytesMax ? 'malformed' : 'incomplete'
  const [requestLine = '', ...lines] = state.pending.toString('latin1', 0, headEnd).split('\r\n')
  const [method = '', target = ''] = requestLine.split(' ')
  if (!/^[A-Z]+$/.test(method) || !target.startsWith('/')) return 'malformed'
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1) return 'malformed'
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const start = headEnd + 4
  const body =
    headers['transfer-encoding'] === 'chunked'
      ? chunkedBody(state.pending, start)
      : sizedBody(state.pending, start, headers)
  if (typeof body === 'string') return body
  state.pending = state.pending.subarray(body.end)
  return { method, path: target.split('?', 1)[0] ?? target, headers, body: body.text }
}

type Body = { readonly text: string; readonly end: number } | 'incomplete' | 'malformed'

function sizedBody(bytes: Buffer, start: number, headers: Readonly<Record<string, string>>): Body {
  const size = Number(headers['content-length'] ?? '0')
  if (!Number.isInteger(size) || size < 0 || size > bodyBytesMax) return 'malformed'
  if (bytes.length < start + size) return 'incomplete'
  return { text: bytes.toString('utf8', start, start + size), end: start + size }
}

function chunkedBody(bytes: Buffer, start: number): Body {
  const parts: Buffer[] = []
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return 'incomplete'
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (!Number.isInteger(size) || size < 0 || size > bodyBytesMax) return 'malformed'
    const next = lineEnd + 2 + size + 2
    if (bytes.length < next) return 'incomplete'
    if (size === 0) return { text: Buffer.concat(parts).toString('utf8'), end: next }
    parts.push(bytes.subarray(lineEnd + 2, next - 2))
    at = next
  }
}
