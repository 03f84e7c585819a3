import { answerText, asResponse } from '../../protocol/dialects/ollama/answer.ts'
import { chatOfPrompt } from '../../protocol/dialects/ollama/request.ts'
import { OllamaStream } from '../../protocol/dialects/ollama/stream.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { OllamaGenerateRequest } from '../../protocol/wire/inference/ollama.ts'
import { asChat } from './chat.ts'
import { asIdle, idleBy, ollamaPlace, readGenerating } from './ollama-place.ts'
import type { Operation } from './operation.ts'
import { refuseFilled, refuseRouting } from './request-body.ts'

/** Ollama's answer to one prompt: a chat of one message for the node. */
export const ollamaGenerate: Operation<ChatRequest> = {
  ...asChat,
  ...ollamaPlace,
  name: 'ollama_generate',
  path: '/generate',
  summary: 'Answer a prompt as Ollama does',
  description: 'Ollama’s interface, whole and streamed, with pictures, thoughts and structured output.',
  schema: OllamaGenerateRequest,
  read(text) {
    const asked = readGenerating(text, OllamaGenerateRequest)
    refuseRouting(asked, true)
    refuseFilled(asked, ['raw', 'suffix'], 'POST /v1/completions of the gateway completes a text as it stands')
    refuseFilled(asked, ['template'], 'the model’s own template is applied where it runs')
    refuseFilled(asked, ['context'], 'nothing is kept between requests: POST /api/chat takes a conversation')
    refuseFilled(asked, ['width', 'height', 'steps'], 'this path draws no pictures')
    return asIdle(asked, chatOfPrompt(asked))
  },
  idle: idleBy(asResponse),
  written: JSON.stringify,
  writeWhole: (identity, { choices }, end) => answerText(asResponse, identity, choices, end),
  writer: (identity) => new OllamaStream(identity, asResponse),
}
