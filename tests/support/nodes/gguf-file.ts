/** Written from the published description of the format, not from the reader. */

type Value = number | string | readonly number[] | readonly string[]

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const u64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])

function typed(value: Value): Buffer {
  if (typeof value === 'number') return Buffer.concat([u32(4), u32(value)])
  if (typeof value === 'string') return Buffer.concat([u32(8), text(value)])
  const items = value.map((item) => (typeof item === 'number' ? u32(item) : text(item)))
  return Buffer.concat([u32(9), u32(typeof value[0] === 'number' ? 4 : 8), u64(items.length), ...items])
}

/** A header with these pairs. */
export const ggufHeader = (pairs: Readonly<Record<string, Value>>): Buffer =>
  Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(0),
    u64(Object.keys(pairs).length),
    ...Object.entries(pairs).flatMap(([key, value]) => [text(key), typed(value)]),
  ])

/** Of a small Llama. */
export const llamaPairs = {
  'general.architecture': 'llama',
  'llama.block_count': 4,
  'llama.context_length': 32_768,
  'llama.embedding_length': 512,
  'llama.feed_forward_length': 1_024,
  'llama.attention.head_count': 8,
  'llama.attention.head_count_kv': 2,
} as const

/** A file of that size whose header is real and whose weights are anything. */
export function ggufFile(bytes: number, pairs: Readonly<Record<string, Value>> = llamaPairs): Uint8Array {
  const header = ggufHeader({ ...pairs, 'tokenizer.ggml.tokens': ['a', 'b', 'c'] })
  const weights = Buffer.alloc(Math.max(0, bytes - header.length))
  for (let at = 0; at < weights.length; at++) weights[at] = (at * 31 + (at >> 8)) & 0xff
  return Buffer.concat([header, weights])
}
