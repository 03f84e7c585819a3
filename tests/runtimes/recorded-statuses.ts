import type { RuntimeStatus } from '../../src/runtimes/runtime.ts'
import { recordedFiles as files, studioFiles, weights } from './recorded-files.ts'

const model = (id: string, contextLength: number | null, ready: boolean, loaded: boolean | null) => ({
  id,
  contextLength,
  ready,
  loaded,
})
/** Its server does not say what it does. */
const guessed = <M extends object>(of: M) => ({ ...of, workGuessed: true as const })
const ranker = (
  id: string,
  contextLength: number | null,
  scoreKind: 'probability' | 'logit',
  documentsMax: number | null = null,
) => ({
  ...model(id, contextLength, true, true),
  modality: 'rerank' as const,
  ranking: { scoreKind, documentsMax },
})
const embedder = (id: string, contextLength: number | null, ready: boolean, loaded: boolean) => ({
  ...model(id, contextLength, ready, loaded),
  modality: 'embedding' as const,
})
const cached = <M extends object>(of: M, cacheTokens: number | null) => ({ ...of, cacheTokens })
const weighed = <M extends object>(of: M) => ({ ...of, file: weights })
const llamaAndAdapter = (cacheTokens: number | null) => [
  guessed(cached(model('meta-llama/Llama-3.1-8B-Instruct', 4_096, true, true), cacheTokens)),
  {
    ...guessed(cached(model('sql-lora-v3', 4_096, true, true), cacheTokens)),
    adapts: 'meta-llama/Llama-3.1-8B-Instruct',
  },
]
const inMemory = { memoryMb: 4_900, memory: { bytes: 5_137_025_024, video_bytes: 5_137_025_024 } }
const silent = { slotsTotal: null, slotsFree: null, queueDepth: null }
const llama31 = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M'

/** What each recorded answer is read as. */
export const recordedStatuses: Readonly<Record<string, RuntimeStatus>> = {
  'llama-cpp-ready': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(model('unsloth/Qwen3.6-35B-A3B-GGUF', 65_536, true, true), 4 * 65_536)))],
    slotsTotal: 4,
    slotsFree: 3,
    queueDepth: null,
  },
  'llama-cpp-path-id': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(model(llama31, 1_024, true, true), 1_024)))],
    slotsTotal: 1,
    slotsFree: null,
    queueDepth: null,
  },
  'llama-cpp-loading': { kind: 'llama.cpp', state: 'loading', models: [], ...silent },
  'llama-cpp-no-slot': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(model(llama31, 65_536, true, true), 2 * 65_536)))],
    slotsTotal: 2,
    slotsFree: 0,
    queueDepth: null,
  },
  'llama-cpp-metrics': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(model(llama31, 65_536, true, true), 2 * 65_536)))],
    slotsTotal: 2,
    slotsFree: 0,
    queueDepth: 3,
  },
  'llama-cpp-sleeping': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(model(llama31, 4_096, true, false), 2 * 4_096)))],
    slotsTotal: 2,
    slotsFree: 2,
    queueDepth: 0,
  },
  'llama-cpp-decisions': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [],
    slotsTotal: 1,
    slotsFree: 1,
    queueDepth: null,
  },
  'llama-cpp-router': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [
      guessed(model('ggml-org/gemma-3-4b-it-GGUF:Q4_K_M', 4_096, true, true)),
      guessed(model('ggml-org/Qwen3-8B-GGUF:Q8_0', null, true, false)),
      guessed(model('ggml-org/gpt-oss-20b-GGUF:Q4_K_M', null, false, false)),
      guessed(model('ggml-org/broken-GGUF:Q4_K_M', null, false, false)),
      guessed(model('ggml-org/asleep-GGUF:Q4_K_M', null, true, false)),
      guessed(model('ggml-org/coming-GGUF:Q4_K_M', null, false, false)),
    ],
    ...silent,
  },
  'llama-cpp-reranker': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [guessed(weighed(cached(ranker('bge-reranker-v2-m3-Q8_0', 1_024, 'logit'), 1_024)))],
    slotsTotal: 1,
    slotsFree: null,
    queueDepth: null,
  },
  'llama-cpp-router-reranker': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [
      guessed(model('ggml-org/gemma-3-4b-it-GGUF:Q4_K_M', 4_096, true, true)),
      ranker('gpustack/bge-base-GGUF:Q8_0', 4_096, 'logit'),
      ranker('ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF', 4_096, 'probability'),
    ],
    ...silent,
  },
  'vllm-reranker': {
    kind: 'vllm',
    state: 'ready',
    models: [ranker('BAAI/bge-reranker-base', 512, 'probability')],
    ...silent,
  },
  'vllm-embedding': {
    kind: 'vllm',
    state: 'ready',
    models: [embedder('intfloat/e5-small', 512, true, true)],
    ...silent,
  },
  'vllm-transcription': {
    kind: 'vllm',
    state: 'ready',
    models: [{ ...model('acme/dictation-large', 448, true, true), modality: 'audio' }],
    ...silent,
  },
  'vllm-classifier': { kind: 'vllm', state: 'ready', models: [], ...silent },
  'vllm-all-routes': {
    kind: 'vllm',
    state: 'ready',
    models: llamaAndAdapter(null),
    ...silent,
  },
  'tei-ready': {
    kind: 'tei',
    state: 'ready',
    models: [ranker('BAAI/bge-reranker-v2-m3', 8_192, 'probability', 32)],
    ...silent,
  },
  'tei-path-id': {
    kind: 'tei',
    state: 'ready',
    models: [ranker('bge-reranker-base', 8_192, 'probability', 8)],
    ...silent,
  },
  'sglang-embedding': {
    kind: 'sglang',
    state: 'ready',
    models: [guessed(embedder('Alibaba-NLP/gte-Qwen2-1.5B-instruct', 32_768, true, true))],
    ...silent,
  },
  'tei-embedding': {
    kind: 'tei',
    state: 'ready',
    models: [embedder('Alibaba-NLP/gte-large-en-v1.5', 8_192, true, true)],
    ...silent,
  },
  'tei-loading': { kind: 'tei', state: 'loading', models: [], ...silent },
  'vllm-ready': {
    kind: 'vllm',
    state: 'ready',
    models: llamaAndAdapter(573 * 16),
    ...silent,
    running: 3,
    queueDepth: 1,
  },
  'vllm-engine-dead': { kind: 'vllm', state: 'down', models: [], ...silent },
  'sglang-ready': {
    kind: 'sglang',
    state: 'ready',
    models: [cached(model('meta-llama/Llama-3.1-8B-Instruct', 131_072, true, true), 161_721)],
    ...silent,
    running: 5,
    queueDepth: 2,
  },
  'sglang-loading': { kind: 'sglang', state: 'loading', models: [], ...silent },
  'sglang-earlier': {
    kind: 'sglang',
    state: 'ready',
    models: [model('meta-llama/Llama-3.1-8B-Instruct', 131_072, true, true)],
    ...silent,
  },
  'sglang-reranker': {
    kind: 'sglang',
    state: 'ready',
    models: [guessed(ranker('BAAI/bge-reranker-v2-m3', 8_192, 'probability'))],
    ...silent,
  },
  'sglang-pictures': {
    kind: 'sglang',
    state: 'ready',
    models: [{ ...model('acme/painter-12b', null, true, true), modality: 'image' }],
    ...silent,
  },
  'sglang-videos': { kind: 'sglang', state: 'ready', models: [], ...silent },
  'ollama-ready': {
    kind: 'ollama',
    state: 'ready',
    models: [
      { ...model('codellama:13b', null, true, false), file: files.codellama },
      { ...model('mistral:latest', 4_096, true, true), file: files.mistral, ...inMemory },
      { ...embedder('nomic-embed-text:latest', null, true, false), file: files.nomic },
      { ...embedder('acme/semantic-search:0.6b', null, true, false), file: files.semantic },
    ],
    ...silent,
  },
  'ollama-earlier': {
    kind: 'ollama',
    state: 'ready',
    models: [
      guessed({ ...model('codellama:13b', null, true, false), file: files.earlierCodellama }),
      guessed({ ...model('mistral:latest', 4_096, true, true), file: files.earlierMistral, ...inMemory }),
      { ...embedder('nomic-embed-text:latest', null, true, false), file: files.earlierNomic },
    ],
    ...silent,
  },
  'ollama-not-in-memory': {
    kind: 'ollama',
    state: 'ready',
    models: [
      { ...model('codellama:13b', null, true, false), file: files.codellama },
      { ...model('mistral:latest', null, true, false), file: files.mistral },
      { ...embedder('nomic-embed-text:latest', null, true, false), file: files.nomic },
      { ...embedder('acme/semantic-search:0.6b', null, true, false), file: files.semantic },
    ],
    ...silent,
  },
  'ollama-empty': { kind: 'ollama', state: 'ready', models: [], ...silent },
  'lm-studio-ready': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      { ...model('qwen2-vl-7b-instruct', 32_768, true, false), file: studioFiles.qwen },
      { ...model('meta-llama-3.1-8b-instruct', 8_192, true, true), file: studioFiles.llama },
      { ...embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false), file: studioFiles.nomic },
    ],
    ...silent,
  },
  'lm-studio-not-in-memory': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      { ...model('qwen2-vl-7b-instruct', 32_768, true, false), file: studioFiles.qwen },
      { ...model('meta-llama-3.1-8b-instruct', 131_072, true, false), file: studioFiles.llama },
      { ...embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false), file: studioFiles.nomic },
    ],
    ...silent,
  },
  'lm-studio-no-jit': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      { ...model('qwen2-vl-7b-instruct', 32_768, false, false), file: studioFiles.qwen },
      { ...model('meta-llama-3.1-8b-instruct', 8_192, true, true), file: studioFiles.llama },
      { ...embedder('text-embedding-nomic-embed-text-v1.5', 2_048, false, false), file: studioFiles.nomic },
    ],
    ...silent,
  },
  'lm-studio-loading': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      { ...model('qwen2-vl-7b-instruct', 32_768, true, false), file: studioFiles.qwen },
      { ...model('meta-llama-3.1-8b-instruct', 131_072, false, false), file: studioFiles.llama },
      { ...embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false), file: studioFiles.nomic },
    ],
    ...silent,
  },
  'openai-ready': {
    kind: 'openai',
    state: 'ready',
    models: [guessed(model('model-id-0', null, true, null)), guessed(model('sabia-4', 128_000, true, null))],
    ...silent,
  },
  'openai-tgi': {
    kind: 'openai',
    state: 'ready',
    models: [guessed(model('mistralai/Mistral-7B-Instruct-v0.3', null, true, null))],
    ...silent,
    running: 4,
    queueDepth: 7,
  },
  'openai-mlx': {
    kind: 'openai',
    state: 'ready',
    models: [
      guessed(model('mlx-community/Qwen3-4B-4bit', null, true, null)),
      guessed({ ...model('mlx-community/Qwen3-Embedding-0.6B-4bit', null, true, null), modality: 'embedding' }),
    ],
    ...silent,
  },
  'openai-infinity': {
    kind: 'openai',
    state: 'ready',
    models: [
      { ...model('words-a', null, true, null), modality: 'embedding' },
      {
        ...model('words-b', null, true, null),
        modality: 'rerank',
        ranking: { scoreKind: 'probability', documentsMax: null },
      },
    ],
    ...silent,
  },
  'openai-transformers': {
    kind: 'openai',
    state: 'ready',
    models: [
      guessed(model('Qwen/Qwen3-0.6B', null, true, true)),
      guessed(model('HuggingFaceTB/SmolLM3-3B', null, true, false)),
    ],
    ...silent,
  },
  'openai-llama-swap': {
    kind: 'openai',
    state: 'ready',
    models: [
      guessed(model('swap-a', 8192, true, true)),
      guessed(model('swap-b', null, true, false)),
      {
        ...model('swap-c', null, true, false),
        modality: 'rerank',
        ranking: { scoreKind: 'probability', documentsMax: null },
      },
    ],
    ...silent,
  },
  'openai-speaches': {
    kind: 'openai',
    state: 'ready',
    models: [
      { ...model('Systran/faster-distil-small.en', null, true, null), modality: 'audio' },
      { ...model('speaches-ai/voices-v1.0', null, true, null), modality: 'audio' },
    ],
    ...silent,
  },
  'openai-named': {
    kind: 'openai',
    state: 'ready',
    models: [
      guessed({ ...model('whisper-1', null, true, null), modality: 'audio' }),
      guessed({ ...model('tts-1', null, true, null), modality: 'audio' }),
      guessed({ ...model('dall-e-3', null, true, null), modality: 'image' }),
      guessed({ ...model('text-embedding-3-small', null, true, null), modality: 'embedding' }),
      guessed(model('gpt-4', null, true, null)),
    ],
    ...silent,
  },
  'openai-hostile': {
    kind: 'openai',
    state: 'ready',
    models: [guessed(model('good', null, true, null)), guessed(model('ok/2', null, true, null))],
    ...silent,
  },
}
