import { embeddingText } from '../../protocol/dialects/ollama/answer.ts'
import { embeddingExtras } from '../../protocol/dialects/ollama/request.ts'
import { given } from '../../protocol/json/json-object.ts'
import type { EmbeddingsRequest } from '../../protocol/wire/inference/embeddings.ts'
import { OllamaEmbeddingsRequest, OllamaEmbeddingsResponse } from '../../protocol/wire/inference/ollama.ts'
import { type EmbeddingsAnswer, embeddings } from './embeddings.ts'
import { ollamaPlace, readOllamaBody } from './ollama-place.ts'
import type { Operation } from './operation.ts'
import { refuseFields, refuseRouting } from './request-body.ts'

/** The embedding of one text, as Ollama had it before `/api/embed`. */
export const ollamaEmbeddings: Operation<EmbeddingsRequest> = {
  ...embeddings,
  ...ollamaPlace,
  name: 'ollama_embeddings',
  path: '/embeddings',
  summary: 'Embed a text as Ollama did',
  description: 'Ollama’s interface before `/api/embed`: one text.',
  schema: OllamaEmbeddingsRequest,
  response: OllamaEmbeddingsResponse,
  read(text) {
    const asked = readOllamaBody(text, OllamaEmbeddingsRequest)
    refuseRouting(asked, false)
    refuseFields(asked, ['stream', 'encoding_format'], 'vectors come at once, as numbers')
    refuseFields(asked, ['input'], 'the text is the prompt here')
    const {
      model,
      prompt,
      svc,
      models,
      metadata,
      options,
      keep_alive: _,
      ...more
    } = {
      metadata: undefined,
      ...asked,
    }
    return { ...embeddingExtras(more, options), model, input: prompt, ...given({ models, metadata, svc }) }
  },
  written: JSON.stringify,
  writeWhole: (_identity, answer, end) => embeddingText((answer as EmbeddingsAnswer).vectors, end),
}
