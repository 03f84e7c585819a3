import type { Modality } from '../protocol/wire/nodes/kinds-of-work.ts'
import { fieldsOf } from './answers.ts'

/** What models are called after the work that they do, for servers that do not say it. First match counts. */
const byName: readonly (readonly [RegExp, Modality])[] = [
  [/rerank/i, 'rerank'],
  [/embed|\b(?:bge|gte|e5|minilm|mpnet)[-_]|sentence-transformers/i, 'embedding'],
  [/whisper|parakeet|canary-|\btts\b|kokoro|piper|speaches/i, 'audio'],
  [/stable-?diffusion|\bsdxl?\b|flux[.-]|dall-?e|qwen-image/i, 'image'],
]

/**
 * Hugging Face's names of tasks, with which servers of speech and others report a model's kind of work. The first match
 * counts.
 */
const byTask: readonly (readonly [RegExp, Modality])[] = [
  [/speech|audio|voice|speaker/, 'audio'],
  [/(?:text|image)-to-image/, 'image'],
  [/^(?:feature-extraction|sentence-similarity)$/, 'embedding'],
  [/^text-ranking$/, 'rerank'],
  [/^text-generation$/, 'chat'],
]

/** null for an unknown task or no task. */
export function modalityByTask(task: string | null): Modality | null {
  return task === null ? null : (byTask.find(([pattern]) => pattern.test(task))?.[1] ?? null)
}

/**
 * Infinity's words for what a model does (https://github.com/michaelfeil/infinity), and llama-swap's word for a ranker. null: it says
 * something else, or nothing.
 */
export function modalityByCapabilities(can: unknown): 'embedding' | 'rerank' | null {
  if (Array.isArray(can)) return can.includes('rerank') ? 'rerank' : can.includes('embed') ? 'embedding' : null
  return fieldsOf(can).reranker === true ? 'rerank' : null
}

/** null: the name says nothing, and the model is taken to write text. */
export function modalityByName(id: string): Exclude<Modality, 'chat'> | null {
  const found = byName.find(([pattern]) => pattern.test(id))
  return found === undefined || found[1] === 'chat' ? null : found[1]
}
