/** Whose signs a simulated node shows. */
export const playedServers = ['llama.cpp', 'vllm', 'sglang', 'ollama', 'lmstudio'] as const
export type PlayedServer = (typeof playedServers)[number]

/** What a played server could say of itself. */
export interface PlayedFacts {
  readonly model: string
  readonly slots: number
  readonly cacheTokens: number
  /** Requests that it works on now, and that wait there. */
  running(): number
  waiting(): number
}

/** By path: an object is answered as JSON, a text as it is, a number as a status without a body. */
export type Signs = Readonly<Record<string, () => object | string | number>>

interface Played {
  readonly signs: (facts: PlayedFacts) => Signs
  /** Its usage says how much of the prompt was cached, without a flag at its start. */
  readonly tellsCached: boolean
}

const listed = (model: string, fields: object) => () => ({
  object: 'list',
  data: [{ id: model, object: 'model', created: 1_795_000_000, ...fields }],
})

const contextTokens = 131_072
const blockTokens = 16

/** As their versions of `tests/runtimes/recorded-servers.ts` answer, with metrics where a server has them. */
export const played: Readonly<Record<PlayedServer, Played>> = {
  'llama.cpp': {
    tellsCached: true,
    // Its slots divide its cache among them.
    signs: ({ model, slots, cacheTokens, running }) => {
      const n_ctx = Math.floor(cacheTokens / slots)
      return {
        '/health': () => ({ status: 'ok' }),
        '/v1/models': listed(model, { owned_by: 'llamacpp', meta: { n_ctx_train: n_ctx } }),
        '/props': () => ({
          default_generation_settings: { n_ctx },
          total_slots: slots,
          model_path: '/weights.gguf',
          build_info: 'bench',
        }),
        '/slots': () => Array.from({ length: slots }, (_, id) => ({ id, n_ctx, is_processing: id < running() })),
      }
    },
  },
  vllm: {
    tellsCached: false,
    signs: ({ model, cacheTokens, running, waiting }) => ({
      '/health': () => '',
      '/version': () => ({ version: '0.33.0' }),
      '/v1/models': listed(model, { owned_by: 'vllm', root: model, parent: null, max_model_len: contextTokens }),
      '/v1/chat/completions': () => 405,
      '/metrics': () =>
        [
          `vllm:num_requests_running{engine="0",model_name="${model}"} ${running()}.0`,
          `vllm:num_requests_waiting{engine="0",model_name="${model}"} ${waiting()}.0`,
          `vllm:cache_config_info{block_size="${blockTokens}",engine="0",num_gpu_blocks="${Math.floor(cacheTokens / blockTokens)}"} 1.0`,
          '',
        ].join('\n'),
    }),
  },
  sglang: {
    tellsCached: false,
    signs: ({ model, cacheTokens, running, waiting }) => ({
      '/ready': () => '',
      '/health': () => '',
      '/model_info': () => ({ model_path: model, is_generation: true, model_type: 'llama' }),
      '/v1/models': listed(model, { owned_by: 'sglang', root: model, parent: null, max_model_len: contextTokens }),
      '/metrics': () =>
        [
          `sglang:num_running_reqs{model_name="${model}",tp_rank="0"} ${running()}.0`,
          `sglang:num_queue_reqs{model_name="${model}",tp_rank="0"} ${waiting()}.0`,
          `sglang:max_total_num_tokens{model_name="${model}",tp_rank="0"} ${cacheTokens}.0`,
          '',
        ].join('\n'),
    }),
  },
  ollama: {
    tellsCached: false,
    signs: ({ model }) => {
      const entry = { name: model, model, size: 5_137_025_024, details: { family: 'llama', format: 'gguf' } }
      return {
        '/': () => 'Ollama is running',
        '/api/version': () => ({ version: '0.33.0' }),
        '/api/tags': () => ({ models: [{ ...entry, capabilities: ['completion'] }] }),
        '/api/ps': () => ({ models: [{ ...entry, size_vram: entry.size, context_length: 16_384 }] }),
        '/v1/models': listed(model, { owned_by: 'library' }),
      }
    },
  },
  lmstudio: {
    tellsCached: false,
    signs: ({ model }) => ({
      '/api/v0/models': listed(model, {
        type: 'llm',
        arch: 'llama',
        compatibility_type: 'gguf',
        state: 'loaded',
        max_context_length: contextTokens,
        loaded_context_length: contextTokens,
      }),
      '/v1/models': listed(model, { owned_by: 'organization_owner' }),
    }),
  },
}
