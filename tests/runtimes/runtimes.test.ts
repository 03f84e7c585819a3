import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import type { RuntimeKind } from '../../src/protocol/wire/nodes/node.ts'
import { detectRuntime, runtimeModules } from '../../src/runtimes/registry.ts'
import type { RuntimeStatus } from '../../src/runtimes/runtime.ts'
import { vllm } from '../../src/runtimes/vllm.ts'
import { replay } from './replayed-server.ts'

const model = (id: string, contextLength: number | null, ready: boolean, loaded: boolean | null) => ({
  id,
  contextLength,
  ready,
  loaded,
})
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
const llamaAndAdapter = (cacheTokens: number | null) => [
  cached(model('meta-llama/Llama-3.1-8B-Instruct', 4_096, true, true), cacheTokens),
  cached(model('sql-lora-v3', null, true, true), cacheTokens),
]
const silent = { slotsTotal: null, slotsFree: null, queueDepth: null }
const llama31 = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M'

const cases: Readonly<Record<string, RuntimeStatus>> = {
  'llama-cpp-ready': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(model('unsloth/Qwen3.6-35B-A3B-GGUF', 65_536, true, true), 4 * 65_536)],
    slotsTotal: 4,
    slotsFree: 3,
    queueDepth: null,
  },
  'llama-cpp-path-id': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(model(llama31, 1_024, true, true), 1_024)],
    slotsTotal: 1,
    slotsFree: null,
    queueDepth: null,
  },
  'llama-cpp-loading': { kind: 'llama.cpp', state: 'loading', models: [], ...silent },
  'llama-cpp-no-slot': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(model(llama31, 65_536, true, true), 2 * 65_536)],
    slotsTotal: 2,
    slotsFree: 0,
    queueDepth: null,
  },
  'llama-cpp-metrics': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(model(llama31, 65_536, true, true), 2 * 65_536)],
    slotsTotal: 2,
    slotsFree: 0,
    queueDepth: 3,
  },
  'llama-cpp-sleeping': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(model(llama31, 4_096, true, false), 2 * 4_096)],
    slotsTotal: 2,
    slotsFree: 2,
    queueDepth: 0,
  },
  'llama-cpp-router': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [
      model('ggml-org/gemma-3-4b-it-GGUF:Q4_K_M', 4_096, true, true),
      model('ggml-org/Qwen3-8B-GGUF:Q8_0', null, true, false),
      model('ggml-org/gpt-oss-20b-GGUF:Q4_K_M', null, false, false),
      model('ggml-org/broken-GGUF:Q4_K_M', null, false, false),
      model('ggml-org/asleep-GGUF:Q4_K_M', null, true, false),
      model('ggml-org/coming-GGUF:Q4_K_M', null, false, false),
    ],
    ...silent,
  },
  'llama-cpp-reranker': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [cached(ranker('bge-reranker-v2-m3-Q8_0', 1_024, 'logit'), 1_024)],
    slotsTotal: 1,
    slotsFree: null,
    queueDepth: null,
  },
  'llama-cpp-router-reranker': {
    kind: 'llama.cpp',
    state: 'ready',
    models: [
      model('ggml-org/gemma-3-4b-it-GGUF:Q4_K_M', 4_096, true, true),
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
    models: [embedder('Alibaba-NLP/gte-Qwen2-1.5B-instruct', 32_768, true, true)],
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
  },
  'vllm-engine-dead': { kind: 'vllm', state: 'down', models: [], ...silent },
  'sglang-ready': {
    kind: 'sglang',
    state: 'ready',
    models: [model('meta-llama/Llama-3.1-8B-Instruct', 131_072, true, true)],
    ...silent,
  },
  'sglang-loading': { kind: 'sglang', state: 'loading', models: [], ...silent },
  'ollama-ready': {
    kind: 'ollama',
    state: 'ready',
    models: [
      model('codellama:13b', null, true, false),
      { ...model('mistral:latest', 4_096, true, true), memoryMb: 4_900 },
      embedder('nomic-embed-text:latest', null, true, false),
    ],
    ...silent,
  },
  'ollama-not-in-memory': {
    kind: 'ollama',
    state: 'ready',
    models: [
      model('codellama:13b', null, true, false),
      model('mistral:latest', null, true, false),
      embedder('nomic-embed-text:latest', null, true, false),
    ],
    ...silent,
  },
  'ollama-empty': { kind: 'ollama', state: 'ready', models: [], ...silent },
  'lm-studio-ready': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      model('qwen2-vl-7b-instruct', 32_768, true, false),
      model('meta-llama-3.1-8b-instruct', 8_192, true, true),
      embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false),
    ],
    ...silent,
  },
  'lm-studio-not-in-memory': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      model('qwen2-vl-7b-instruct', 32_768, true, false),
      model('meta-llama-3.1-8b-instruct', 131_072, true, false),
      embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false),
    ],
    ...silent,
  },
  'lm-studio-no-jit': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      model('qwen2-vl-7b-instruct', 32_768, false, false),
      model('meta-llama-3.1-8b-instruct', 8_192, true, true),
      embedder('text-embedding-nomic-embed-text-v1.5', 2_048, false, false),
    ],
    ...silent,
  },
  'lm-studio-loading': {
    kind: 'lmstudio',
    state: 'ready',
    models: [
      model('qwen2-vl-7b-instruct', 32_768, true, false),
      model('meta-llama-3.1-8b-instruct', 131_072, false, false),
      embedder('text-embedding-nomic-embed-text-v1.5', 2_048, true, false),
    ],
    ...silent,
  },
  'openai-ready': {
    kind: 'openai',
    state: 'ready',
    models: [model('model-id-0', null, true, null), model('sabia-4', 128_000, true, null)],
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
      { ...model('whisper-1', null, true, null), modality: 'audio' },
      { ...model('tts-1', null, true, null), modality: 'audio' },
      { ...model('dall-e-3', null, true, null), modality: 'image' },
      { ...model('text-embedding-3-small', null, true, null), modality: 'embedding' },
      model('gpt-4', null, true, null),
    ],
    ...silent,
  },
  'openai-hostile': {
    kind: 'openai',
    state: 'ready',
    models: [model('good', null, true, null), model('ok/2', null, true, null)],
    ...silent,
  },
}

describe('§8: each kind is known and read by its own signs', () => {
  for (const [name, expected] of Object.entries(cases)) {
    test(name, () =>
      replay(name, async ({ get }) => {
        const module = await detectRuntime(get)
        expect(module?.kind).toBe(expected.kind)
        expect(await module?.probe(get)).toEqual(expected)
      }),
    )
  }
})

test('every recorded answer is used', () => {
  const files = readdirSync(`${import.meta.dir}/fixtures`).filter((name) => name.endsWith('.json'))
  expect(files.toSorted()).toEqual(
    [...Object.keys(cases), 'openai-unavailable'].map((name) => `${name}.json`).toSorted(),
  )
})

test('§8: no kind takes the answers of another for its own', async () => {
  // Any list of models is a generic server's too, which is why that one is asked last.
  const strict = runtimeModules.filter((module) => module.kind !== 'openai')
  for (const [name, { kind }] of Object.entries(cases)) {
    const claims: RuntimeKind[] = await replay(name, async ({ get }) => {
      const answers = await Promise.all(strict.map(async (module) => ((await module.detect(get)) ? [module.kind] : [])))
      return answers.flat()
    })
    expect([name, claims]).toEqual([name, kind === 'openai' ? [] : [kind]])
  }
})

test('§22: a server that was known and is away for a moment is loading, an unknown answer is no kind', () =>
  replay('openai-unavailable', async ({ get }) => {
    expect(await detectRuntime(get)).toBeNull()
    expect(await runtimeModules.at(-1)?.probe(get)).toMatchObject({ kind: 'openai', state: 'loading', models: [] })
  }))

test('§22: a sleeping llama.cpp is not woken: neither its slots nor a completion are asked for', () =>
  replay('llama-cpp-sleeping', async ({ get, asked }) => {
    await (await detectRuntime(get))?.probe(get)
    expect([...new Set(asked)].toSorted()).toEqual(['/health', '/props', '/v1/models'])
  }))

test('§29: vLLM is asked for the size of its cache once, whether it says it or not', async () => {
  for (const [name, tokens] of [
    ['vllm-ready', 573 * 16],
    ['vllm-all-routes', null],
  ] as const) {
    await replay(name, async ({ get, asked }) => {
      const module = await detectRuntime(get)
      const first = await module?.probe(get, null)
      const second = await module?.probe(get, first)
      expect(second?.models.map(({ cacheTokens }) => cacheTokens)).toEqual([tokens, tokens])
      expect(asked.filter((path) => path === '/metrics')).toHaveLength(1)
    })
  }
})

test('§22: what a server says of its cache is believed where it can be, and keeps no model from serving', async () => {
  const line = (labels: string) => `vllm:cache_config_info{${labels}} 1.0`
  const told = async (metrics: () => Promise<Response>) =>
    replay('vllm-ready', async ({ get }) => {
      const status = await vllm.probe((path) => (path === '/metrics' ? metrics() : get(path)), null)
      return status.models.map(({ ready, cacheTokens }) => [ready, cacheTokens])
    })
  const as = (tokens: number | null) => [
    [true, tokens],
    [true, tokens],
  ]
  for (const [labels, tokens] of [
    ['block_size="16",num_gpu_blocks="10"', 160],
    ['mamba_block_size="32",num_gpu_blocks_override="7",block_size="16",num_gpu_blocks="10"', 160],
    ['block_size="16",num_gpu_blocks="None"', null],
    ['block_size="16",num_gpu_blocks="0"', null],
    ['block_size="16",num_gpu_blocks="-3"', null],
    ['block_size="999999999999",num_gpu_blocks="999999999999"', null],
    ['block_size="16"', null],
  ] as const)
    expect([labels, await told(async () => new Response(line(labels)))]).toEqual([labels, as(tokens)])
  expect(await told(async () => new Response(line('block_size="16",num_gpu_blocks="10"'), { status: 401 }))).toEqual(
    as(null),
  )
  expect(await told(() => Promise.reject(new Error('longer than a poll may be')))).toEqual(as(null))
})

test('§22: at most 1,000 models of one server are believed', async () => {
  const data = Array.from({ length: 5_000 }, (_, at) => ({ id: `m-${at}` }))
  const get = async () => Response.json({ object: 'list', data })
  expect((await runtimeModules.at(-1)?.probe(get))?.models.length).toBe(1_000)
})

test('a server that does not answer is a failure of the transport, not a status', async () => {
  const refused = () => Promise.reject(new TypeError('refused'))
  for (const module of runtimeModules) {
    await expect(module.detect(refused)).rejects.toThrow('refused')
    await expect(module.probe(refused)).rejects.toThrow('refused')
  }
})
