import { answerText, asMessage } from '../../protocol/dialects/ollama/answer.ts'
import { chatOfOllama } from '../../protocol/dialects/ollama/request.ts'
import { OllamaStream } from '../../protocol/dialects/ollama/stream.ts'
import { withDigits } from '../../protocol/json/exact-numbers.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { OllamaChatRequest } from '../../protocol/wire/inference/ollama.ts'
import { asChat } from './chat.ts'
import { asIdle, idleBy, ollamaPlace, readGenerating } from './ollama-place.ts'
import type { Operation } from './operation.ts'
import { refuseRouting } from './request-body.ts'

/** Ollama's chat: a chat for the node, and lines of JSON for the client. */
export const ollamaChat: Operation<ChatRequest> = {
  ...asChat,
  ...ollamaPlace,
  name: 'ollama_chat',
  path: '/chat',
  summary: 'Chat as Ollama does',
  description: 'Ollama’s interface, whole and streamed, with tools, pictures, thoughts and structured output.',
  schema: OllamaChatRequest,
  read(text) {
    const asked = withDigits(readGenerating(text, OllamaChatRequest), text, ['messages', 'tools'])
    refuseRouting(asked, true)
    return asIdle(asked, chatOfOllama(asked))
  },
  idle: idleBy(asMessage),
  written: JSON.stringify,
  writeWhole: (identity, { choices }, end) => answerText(asMessage, identity, choices, end),
  writer: (identity) => new OllamaStream(identity, asMessage),
}
