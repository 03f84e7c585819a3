import type { ChunkStyle } from './node-twists.ts'

type Chunk = (hex: string, length: number) => readonly [size: string, end: string]

const chunkAs: Readonly<Record<ChunkStyle, Chunk>> = {
  plain: (hex) => [hex, '\r\n'],
  extension: (hex) => [`${hex};a=b`, '\r\n'],
  'quoted extension': (hex) => [`${hex};a="\r0;"`, '\r\n'],
  'upper case': (hex) => [hex.toUpperCase(), '\r\n'],
  'leading zeros': (hex) => [`0000000${hex}`, '\r\n'],
  'blank after': (hex) => [`${hex}  `, '\r\n'],
  'blank before': (hex) => [` ${hex}`, '\r\n'],
  '0x': (hex) => [`0x${hex}`, '\r\n'],
  'bare LF': (hex) => [hex, '\n'],
  'no end of data': (hex) => [hex, ''],
  'one byte more': (_, length) => [(length + 1).toString(16), '\r\n'],
  'one byte less': (_, length) => [Math.max(0, length - 1).toString(16), '\r\n'],
  'huge size': () => ['fffffffffffffff', '\r\n'],
  'negative size': (hex) => [`-${hex}`, '\r\n'],
  'no last chunk': (hex) => [hex, '\r\n'],
  'no empty line': (hex) => [hex, '\r\n'],
  'two last chunks': (hex) => [hex, '\r\n'],
}

function chunkOf(data: Buffer, style: ChunkStyle): Buffer {
  const [size, end] = chunkAs[style](data.length.toString(16), data.length)
  return Buffer.concat([Buffer.from(`${size}${style === 'bare LF' ? '\n' : '\r\n'}`), data, Buffer.from(end)])
}

function lastChunk(style: ChunkStyle, trailers: string): string {
  const feed = style === 'bare LF' ? '\n' : '\r\n'
  const last = `0${feed}${trailers}${feed}`
  if (style === 'no last chunk') return ''
  if (style === 'no empty line') return `0${feed}`
  return style === 'two last chunks' ? last + last : last
}

export interface Chunking {
  /** Of the first chunks; the last one takes the rest. */
  readonly sizes: readonly number[]
  readonly style: ChunkStyle
  /** Whole lines. */
  readonly trailers: string
}

/** A body in chunks, as wrong as its style says. */
export function chunked(body: Buffer, { sizes, style, trailers }: Chunking): Buffer {
  const out: Buffer[] = []
  for (let at = 0, i = 0; at < body.length; i++) {
    const size = sizes[i] ?? body.length - at
    out.push(chunkOf(body.subarray(at, at + size), style))
    at += size
  }
  return Buffer.concat([...out, Buffer.from(lastChunk(style, trailers), 'latin1')])
}
