import { embedText } from '../../protocol/dialects/ollama/answer.ts'
import { embeddingExtras } from '../../protocol/dialects/ollama/request.ts'
import { given } from '../../protocol/json/json-object.ts'
import type { EmbeddingsRequest } from '../../protocol/wire/inference/embeddings.ts'
import { OllamaEmbedRequest, OllamaEmbedResponse } from '../../protocol/wire/inference/ollama.ts'
import { type EmbeddingsAnswer, embeddings } from './embeddings.ts'
import { ollamaPlace, readOllamaBody } from './ollama-place.ts'
import type { Operation } from './operation.ts'
import { refuseFields, refuseRouting } from './request-body.ts'

/** Ollama's embeddings: OpenAI's for the node. */
export const ollamaEmbed: Operation<EmbeddingsRequest> = {
  ...embeddings,
  ...ollamaPlace,
  name: 'ollama_embed',
  path: '/embed',
  summary: 'Embed texts as Ollama does',
  description: 'Ollama’s interface: a text or a list of texts, many of them side by side on all nodes of the model.',
  schema: OllamaEmbedRequest,
  response: OllamaEmbedResponse,
  read(text) {
    const asked = readOllamaBody(text, OllamaEmbedRequest)
    refuseRouting(asked, false)
    refuseFields(asked, ['stream', 'encoding_format'], 'vectors come at once, as numbers')
    const {
      model,
      input,
      dimensions,
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
    return {
      ...embeddingExtras(more, options),
      model,
      input,
      ...(dimensions == null ? {} : { dimensions }),
      ...given({ models, metadata }),
      ...(svc === undefined ? {} : { svc }),
    }
  },
  written: JSON.stringify,
  writeWhole: (identity, answer, end) => embedText(identity, (answer as EmbeddingsAnswer).vectors, end),
}
