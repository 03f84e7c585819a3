import type { GgufHead, GgufPairs } from './gguf.ts'

/** The context that is planned for where the order names none, tokens. */
const contextDefault = 8_192
/** llama.cpp keeps keys and values as half floats unless it is told otherwise. */
const cacheBytes = 2
/** Tokens that llama.cpp computes at once by default, and bytes of each number then. */
const [batchTokens, floatBytes] = [512, 4]
/** The program itself, and what its libraries take, bytes. */
const programBytes = 64 * 1024 * 1024
const bytesOfMb = 1024 * 1024

export interface Estimate {
  readonly memoryMb: number
  readonly contextLength: number
}

/** What of an architecture decides its memory. */
interface Shape {
  number(name: string): number | null
  /** One for each layer. */
  layered(name: string, layers: number): readonly number[] | null
}

function shapeOf(pairs: GgufPairs): Shape {
  const architecture = pairs.get('general.architecture')
  const value = (name: string) => pairs.get(`${String(architecture)}.${name}`)
  const number = (name: string) => {
    const found = value(name)
    return typeof found === 'number' && Number.isFinite(found) && found >= 0 ? found : null
  }
  const layered = (name: string, layers: number) => {
    const found = value(name)
    if (Array.isArray(found)) return found.length >= layers ? found.slice(0, layers) : null
    const one = number(name)
    return one === null ? null : Array.from({ length: layers }, () => one)
  }
  return { number, layered }
}

/** Of one token in all layers, bytes; null: the header does not say. */
function cacheBytesPerToken(shape: Shape, layers: number): number | null {
  const heads = shape.layered('attention.head_count', layers)
  const embedding = shape.number('embedding_length')
  if (heads === null || embedding === null) return null
  // Multi-head latent attention keeps one small vector in the place of all heads.
  const latent = shape.number('attention.kv_lora_rank')
  if (latent !== null && latent > 0) {
    return layers * (latent + (shape.number('rope.dimension_count') ?? 0)) * cacheBytes
  }
  const keyHeads = shape.layered('attention.head_count_kv', layers) ?? heads
  const perHead = (most: number) => (most === 0 ? 0 : embedding / most)
  const key = shape.number('attention.key_length')
  const value = shape.number('attention.value_length')
  return keyHeads.reduce((sum, count, layer) => {
    const usual = perHead(heads[layer] ?? 0)
    return sum + count * ((key ?? usual) + (value ?? usual)) * cacheBytes
  }, 0)
}

/** What llama.cpp computes with, beside weights and cache, bytes. */
function computeBytes(shape: Shape, vocabulary: number): number {
  const wide = (shape.number('feed_forward_length') ?? 0) * 2 + (shape.number('embedding_length') ?? 0) * 4
  return batchTokens * floatBytes * (vocabulary + wide)
}

function vocabularyOf(pairs: GgufPairs, shape: Shape): number {
  const tokens = pairs.get('tokenizer.ggml.tokens')
  const listed = typeof tokens === 'object' ? ('count' in tokens ? tokens.count : tokens.length) : 0
  return shape.number('vocab_size') ?? listed
}

/**
 * What llama.cpp will take for the model: weights, cache for the tokens asked for, what it computes with. null: the header does not say
 * enough. `fileBytes`: of all its files. `asked`: tokens; never more than the model was made for.
 */
export function estimateOf({ pairs }: GgufHead, fileBytes: number, asked: number | null): Estimate | null {
  const shape = shapeOf(pairs)
  const layers = shape.number('block_count')
  if (layers === null || layers > 1_024) return null
  const perToken = cacheBytesPerToken(shape, layers)
  if (perToken === null) return null
  const most = shape.number('context_length') ?? contextDefault
  const contextLength = Math.max(1, Math.min(asked ?? contextDefault, most))
  const bytes = fileBytes + perToken * contextLength + computeBytes(shape, vocabularyOf(pairs, shape)) + programBytes
  return Number.isFinite(bytes) ? { memoryMb: Math.ceil(bytes / bytesOfMb), contextLength } : null
}

/** The header says what the estimate needs, or all that it has. */
export const saysEnough = (head: GgufHead): boolean =>
  head.whole || (head.pairs.has('tokenizer.ggml.tokens') && estimateOf(head, 0, null) !== null)
