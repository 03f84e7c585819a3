import type { ChunkIdentity, SettledEnd } from '../chat/chunk-reader.ts'
import { isErrorBody } from '../chat/chunk-reader.ts'
import { type TokenUsage, tokenCount } from '../chat/token-usage.ts'
import { foreignJson } from '../json/foreign-json.ts'
import { isObject } from '../json/json-object.ts'
import { jsonString } from '../json/json-text.ts'

export type EmbeddingFormat = 'float' | 'base64'

/** A node's embeddings by allow-list: in the order of the inputs, in the form that the client asked for. */
export interface EmbeddingList {
  /** Each as JSON. */
  readonly vectors: readonly string[]
  readonly usage: TokenUsage | null
  readonly svc: unknown
}

/** Of one vector; more is no embedding. */
const dimensionsMax = 65_536
const floatBytes = 4
/** Of 4-byte groups; anything else is no list of 32-bit floats. */
const base64Pattern = /^[A-Za-z0-9+/]+={0,2}$/

const isNumbers = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.length > 0 && value.length <= dimensionsMax && value.every(Number.isFinite)

function floatsOf(text: string): readonly number[] | null {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length === 0 || bytes.length % floatBytes !== 0 || bytes.length > dimensionsMax * floatBytes) return null
  const floats: number[] = []
  for (let at = 0; at < bytes.length; at += floatBytes) floats.push(bytes.readFloatLE(at))
  return floats.every(Number.isFinite) ? floats : null
}

function base64Of(floats: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(floats.length * floatBytes)
  floats.forEach((value, at) => {
    bytes.writeFloatLE(value, at * floatBytes)
  })
  return bytes.toString('base64')
}

/** A vector in the requested format, even if the node cannot write that format; null if it is not a vector. */
function vectorText(embedding: unknown, format: EmbeddingFormat): string | null {
  if (typeof embedding === 'string') {
    if (!base64Pattern.test(embedding) || embedding.length > dimensionsMax * 2 * floatBytes) return null
    if (format === 'base64') return `"${embedding}"`
    const floats = floatsOf(embedding)
    return floats === null ? null : JSON.stringify(floats)
  }
  if (!isNumbers(embedding)) return null
  return format === 'float' ? JSON.stringify(embedding) : `"${base64Of(embedding)}"`
}

/** Of an operation that reads and generates nothing. */
export function promptUsage(value: unknown): TokenUsage | null {
  if (!isObject(value)) return null
  const prompt = tokenCount(value.prompt_tokens) ?? tokenCount(value.total_tokens)
  return prompt === null ? null : { prompt_tokens: prompt, completion_tokens: 0, total_tokens: prompt }
}

/** null: it is an error, or not one vector for each of `inputs`. */
export function readEmbeddings(text: string, inputs: number, format: EmbeddingFormat): EmbeddingList | null {
  const body = foreignJson(text)
  if (!isObject(body) || isErrorBody(body) || !Array.isArray(body.data) || body.data.length !== inputs) return null
  const vectors = new Array<string>(inputs)
  let filled = 0
  for (const [at, entry] of body.data.entries()) {
    if (!isObject(entry)) return null
    const index = entry.index === undefined ? at : tokenCount(entry.index)
    const vector = vectorText(entry.embedding, format)
    if (index === null || index >= inputs || vector === null || vectors[index] !== undefined) return null
    vectors[index] = vector
    filled++
  }
  return filled === inputs ? { vectors, usage: promptUsage(body.usage), svc: body.svc } : null
}

/** The body of an answer, as it goes on the wire. */
export function embeddingsText(
  { model }: ChunkIdentity,
  vectors: readonly string[],
  { usage, metadata }: SettledEnd,
): string {
  const data = vectors.map((vector, index) => `{"object":"embedding","index":${index},"embedding":${vector}}`)
  const usageText = `{"prompt_tokens":${usage.prompt_tokens},"total_tokens":${usage.total_tokens}}`
  return `{"object":"list","data":[${data.join(',')}],"model":${jsonString(model)},"usage":${usageText},"svc":${JSON.stringify(metadata)}}`
}
