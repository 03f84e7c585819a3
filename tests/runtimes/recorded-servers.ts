import type { RuntimeKind } from '../../src/protocol/wire/nodes/node.ts'

/** Which version of a model server answers as its fixtures do. */
export interface RecordedServer {
  readonly kind: RuntimeKind
  readonly server: string
  readonly version: string
  /** The page or file that shows the shapes. */
  readonly shownBy: string
  /** Later versions answer otherwise; such servers are still met. */
  readonly earlier?: true
  readonly fixtures: readonly string[]
}

/** Each kind of model server has at least one row of its current version. The table was last brought up to date in November 2026. */
export const recordedServers: readonly RecordedServer[] = [
  {
    // Recorded from the server that tests/support/nodes/llama-server.ts starts, with other names and numbers.
    kind: 'llama.cpp',
    server: 'llama.cpp',
    version: 'b11549',
    shownBy: 'https://pypi.org/project/xllamacpp/2026.10.11549/',
    fixtures: [
      'llama-cpp-ready',
      'llama-cpp-path-id',
      'llama-cpp-no-slot',
      'llama-cpp-metrics',
      'llama-cpp-sleeping',
      'llama-cpp-reranker',
    ],
  },
  {
    kind: 'llama.cpp',
    server: 'llama.cpp, its router and what a test cannot start',
    version: '00dc8057',
    shownBy:
      'https://github.com/ggml-org/llama.cpp/blob/00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/tools/server/README.md',
    fixtures: ['llama-cpp-loading', 'llama-cpp-decisions', 'llama-cpp-router', 'llama-cpp-router-reranker'],
  },
  {
    kind: 'vllm',
    server: 'vLLM',
    version: '0.33.0',
    // vllm/entrypoints/serve/engine/protocol.py, launchers/api_server/routers.py and the factories that it calls.
    shownBy: 'https://pypi.org/project/vllm/0.33.0/',
    fixtures: [
      'vllm-ready',
      'vllm-engine-dead',
      'vllm-reranker',
      'vllm-embedding',
      'vllm-transcription',
      'vllm-classifier',
    ],
  },
  {
    kind: 'vllm',
    server: 'vLLM before 2026',
    version: '0.8.5',
    shownBy:
      'https://github.com/vllm-project/vllm/blob/075e9ba825513f0e50ae1a5185d6db0ee405f84e/vllm/entrypoints/openai/serving_models.py',
    earlier: true,
    fixtures: ['vllm-all-routes'],
  },
  {
    kind: 'sglang',
    server: 'SGLang',
    version: '0.5.23',
    // sglang/srt/entrypoints/http_server.py
    shownBy: 'https://pypi.org/project/sglang/0.5.23/',
    fixtures: ['sglang-ready', 'sglang-loading', 'sglang-embedding', 'sglang-reranker'],
  },
  {
    kind: 'sglang',
    server: 'SGLang, its diffusion server',
    version: '0.5.23',
    // sglang/multimodal_gen/runtime/entrypoints/http_server.py and openai/common_api.py
    shownBy: 'https://pypi.org/project/sglang/0.5.23/',
    fixtures: ['sglang-pictures', 'sglang-videos'],
  },
  {
    kind: 'sglang',
    server: 'SGLang without /ready',
    version: '0025436e',
    shownBy:
      'https://github.com/sgl-project/sglang/blob/0025436eab0556737d615b36a4dd3e1e26e82f3d/python/sglang/srt/entrypoints/http_server.py',
    earlier: true,
    fixtures: ['sglang-earlier'],
  },
  {
    kind: 'ollama',
    server: 'Ollama',
    version: '0.33.0-rc2',
    // api/types.go, server/model_list_cache.go, server/routes.go
    shownBy: 'https://github.com/ollama/ollama/blob/fb30760996871fa9460115c753afd2c60d4ab0f7/api/types.go',
    fixtures: ['ollama-ready', 'ollama-not-in-memory', 'ollama-empty'],
  },
  {
    kind: 'ollama',
    server: 'Ollama before 0.30',
    version: '0.12.3',
    shownBy: 'https://github.com/ollama/ollama/blob/01e52d24bc00defcd9bcc6d995b11df0f08bc6f1/docs/api.md',
    earlier: true,
    fixtures: ['ollama-earlier'],
  },
  {
    kind: 'lmstudio',
    server: 'LM Studio',
    version: '0.4',
    shownBy:
      'https://github.com/lmstudio-ai/docs/blob/c6854fba2575bf21e07702ee210e1bed09e7c577/1_developer/2_rest/endpoints.mdx',
    fixtures: ['lm-studio-ready', 'lm-studio-not-in-memory', 'lm-studio-no-jit', 'lm-studio-loading'],
  },
  {
    kind: 'tei',
    server: 'Text Embeddings Inference',
    version: '1.9.3',
    shownBy:
      'https://github.com/huggingface/text-embeddings-inference/blob/0d124dc9773be6ac5a9a57d8439aba9bbbf33273/router/src/lib.rs',
    fixtures: ['tei-ready', 'tei-embedding', 'tei-loading'],
  },
  {
    kind: 'tei',
    server: 'Text Embeddings Inference before 1.9',
    version: '1.8.3',
    shownBy: 'https://github.com/huggingface/text-embeddings-inference/blob/v1.8.3/router/src/lib.rs',
    earlier: true,
    fixtures: ['tei-path-id'],
  },
  {
    kind: 'openai',
    server: 'OpenAI',
    version: 'v1',
    shownBy: 'https://platform.openai.com/docs/api-reference/models/list',
    fixtures: ['openai-ready', 'openai-named'],
  },
  {
    kind: 'openai',
    server: 'Speaches',
    version: '0.9.0-rc.3',
    shownBy:
      'https://github.com/speaches-ai/speaches/blob/870e1e16a73452496e99d49f759eabd692a8e0e0/src/speaches/api_types.py',
    fixtures: ['openai-speaches'],
  },
  {
    kind: 'openai',
    server: 'Text Generation Inference',
    version: '3.3.7',
    shownBy:
      'https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/router/src/lib.rs',
    fixtures: ['openai-tgi'],
  },
  {
    kind: 'openai',
    server: 'MLX LM',
    version: '0.32.0',
    shownBy: 'https://github.com/ml-explore/mlx-lm/blob/d78bf58e217c904ec282ed8da9b947491f78c022/mlx_lm/server.py',
    fixtures: ['openai-mlx'],
  },
  {
    // Recorded from the servers that tests/support/nodes/torch-servers.ts starts, with other names and numbers.
    kind: 'openai',
    server: 'Infinity',
    version: '0.0.78',
    shownBy: 'https://pypi.org/project/infinity-emb/0.0.78/',
    fixtures: ['openai-infinity'],
  },
  {
    kind: 'openai',
    server: 'Transformers',
    version: '5.24.0',
    shownBy: 'https://pypi.org/project/transformers/5.24.0/',
    fixtures: ['openai-transformers'],
  },
  {
    kind: 'openai',
    server: 'llama-swap',
    version: '0bdb3720',
    shownBy: 'https://github.com/mostlygeek/llama-swap/blob/0bdb3720/internal/server/api.go',
    fixtures: ['openai-llama-swap'],
  },
]

/** What no honest server says. */
export const madeUp = ['openai-hostile', 'openai-unavailable']
