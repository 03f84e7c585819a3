import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { embeddings } from './embeddings.ts'
import { imageEdits, imageGenerations } from './images.ts'
import { messages } from './messages.ts'
import { ollamaChat } from './ollama-chat.ts'
import { ollamaEmbed } from './ollama-embed.ts'
import { ollamaEmbeddings } from './ollama-embeddings.ts'
import { ollamaGenerate } from './ollama-generate.ts'
import type { Operation } from './operation.ts'
import { rerank } from './rerank.ts'
import { responses } from './responses.ts'
import { speech } from './speech.ts'
import { transcriptions, translations } from './speech-to-text.ts'

/** Every kind of inference that the gateway serves. */
export const operations: readonly Operation[] = [
  chat,
  completions,
  embeddings,
  messages,
  responses,
  rerank,
  transcriptions,
  translations,
  speech,
  imageGenerations,
  imageEdits,
]

/** Of Ollama's interface, on its own listener. */
export const ollamaOperations: readonly Operation[] = [ollamaChat, ollamaGenerate, ollamaEmbed, ollamaEmbeddings]

/** All operations of that listener: an Ollama has these of OpenAI's and Anthropic's too. No form is among them, because any web page may post one. */
export const ollamaListens: readonly Operation[] = [
  ...ollamaOperations,
  chat,
  completions,
  embeddings,
  messages,
  responses,
]

/** Below each of them stands every operation of the gateway's own listener; the first is canonical (§28). */
export const basePaths = ['/v1/api', '/v1'] as const

type Placed = Pick<Operation, 'path' | 'bases'>
export const pathsOf = ({ path, bases = basePaths }: Placed): readonly string[] => bases.map((base) => base + path)
/** The path by which metrics, traces, logs and OpenAPI know an operation. */
export const routeOf = (operation: Placed): string => pathsOf(operation)[0] ?? operation.path
