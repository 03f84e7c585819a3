/** `runtime_kind` on the wire (§5). */
export const runtimeKinds = [
  'llama.cpp',
  'vllm',
  'sglang',
  'tgi',
  'tei',
  'ollama',
  'lmstudio',
  'mlx',
  'openai',
  'demo',
  'other',
] as const
export type RuntimeKind = (typeof runtimeKinds)[number]
