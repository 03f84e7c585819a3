import type { Modality } from '../protocol/wire/nodes/agent.ts'

/** What models are called after the work that they do, for servers that do not say it. First match counts. */
const byName: readonly (readonly [RegExp, Modality])[] = [
  [/rerank/i, 'rerank'],
  [/embed|\b(?:bge|gte|e5|minilm|mpnet)[-_]|sentence-transformers/i, 'embedding'],
  [/whisper|parakeet|canary-|\btts\b|kokoro|piper|speaches/i, 'audio'],
  [/stable-?diffusion|\bsdxl?\b|flux[.-]|dall-?e|qwen-image/i, 'image'],
]

/** null: the name says nothing, and the model is taken to write text. */
export function modalityByName(id: string): Exclude<Modality, 'chat'> | null {
  const found = byName.find(([pattern]) => pattern.test(id))
  return found === undefined || found[1] === 'chat' ? null : found[1]
}
