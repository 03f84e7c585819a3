import { renamedBound, streamMembers } from '../protocol/chat/upstream-request.ts'
import type { Json } from '../protocol/json/json-object.ts'
import type { ChatRequest } from '../protocol/wire/inference/chat.ts'
import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { demo } from './demo.ts'
import { llamaCpp } from './llama-cpp.ts'
import { lmStudio } from './lm-studio.ts'
import { ollama } from './ollama.ts'
import { openai } from './openai.ts'
import type { RerankDialect } from './ranking.ts'
import type { ModelLoads, ProbeFetch, RuntimeModule } from './runtime.ts'
import { sglang } from './sglang.ts'
import { tei } from './tei.ts'
import type { Tokenizer } from './tokens/tokenizer.ts'
import { vllm } from './vllm.ts'

/**
 * In the order in which they are tried. llama.cpp comes before Ollama, whose paths it imitates. The generic one is
 * last.
 */
export const runtimeModules: readonly RuntimeModule[] = [demo, llamaCpp, vllm, sglang, ollama, lmStudio, tei, openai]

const freesLateOf = new Map(runtimeModules.map(({ kind, freesLate }) => [kind, freesLate]))

const rerankDialects = new Map(runtimeModules.map(({ kind, rerank }) => [kind, rerank]))

const tokenizers = new Map(runtimeModules.map(({ kind, tokenizer }) => [kind, tokenizer]))

/** How the tokenizer of a server of this kind is asked; undefined: it has none. */
export const tokenizerOf = (kind: RuntimeKind): Tokenizer | undefined => tokenizers.get(kind)

const loadsByKind = new Map(runtimeModules.map(({ kind, loads }) => [kind, loads]))

/** How to load and unload models on a server of this kind; undefined if it has no interface for it. */
export const modelLoadsOf = (kind: RuntimeKind): ModelLoads | undefined => loadsByKind.get(kind)

/** How a server of this kind is asked for a ranking; undefined: it cannot rank. */
export const rerankDialectOf = (kind: RuntimeKind): RerankDialect | undefined => rerankDialects.get(kind)

const thinkingOf = new Map(runtimeModules.map(({ kind, thinking }) => [kind, thinking]))

/** Templates call the switch by either name, and pass over the other one. */
const templateSwitch = (on: boolean): Json => ({ chat_template_kwargs: { enable_thinking: on, thinking: on } })

/** Members of a chat that switch the thinking of a model on or off at a server of this kind (§35). */
export const thinkingMembers = (kind: RuntimeKind, on: boolean): Json => (thinkingOf.get(kind) ?? templateSwitch)(on)

/** True if the gateway or the agent must ask this runtime for a stream to get a whole answer (§27). */
function askedAsStream(kind: RuntimeKind, request: ChatRequest): boolean {
  return request.stream !== true && freesLateOf.get(kind)?.(request) === true
}

const boundByMaxTokens = new Set(runtimeModules.filter((one) => one.boundByMaxTokens).map(({ kind }) => kind))

/** Members of a chat in the place of its client's, so that a server of this kind is asked as it has to be; null: none. */
export function membersFor(kind: RuntimeKind, request: ChatRequest, whole = false): Json | null {
  const streamed = !whole && askedAsStream(kind, request) ? streamMembers : null
  const bound = boundByMaxTokens.has(kind) ? renamedBound(request) : null
  return bound === null ? streamed : { ...streamed, ...bound }
}

/** The kind of server behind `get`; null if no known kind matches. Throws what `get` throws. */
export async function detectRuntime(
  get: ProbeFetch,
  modules: readonly RuntimeModule[] = runtimeModules,
): Promise<RuntimeModule | null> {
  const answers = remembered(get)
  for (const module of modules) if (await module.detect(answers)) return module
  return null
}

/** Most kinds look at the same paths, so each path is fetched once. */
function remembered(get: ProbeFetch): ProbeFetch {
  const seen = new Map<string, ReturnType<ProbeFetch>>()
  return (path) => {
    const before = seen.get(path)
    if (before !== undefined) return before
    const answer = get(path).then(async (given) => {
      const body = await given.text()
      return { status: given.status, headers: given.headers, text: async () => body }
    })
    seen.set(path, answer)
    return answer
  }
}
