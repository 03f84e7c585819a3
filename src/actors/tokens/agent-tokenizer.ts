import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import { type AgentTokensRequest, nodeTokensPath } from '../../protocol/wire/nodes/tokens.ts'
import type { TokenAsk, Tokenizer } from '../../runtimes/tokens/tokenizer.ts'
import { countedTokens } from '../../runtimes/tokens/vllm-tokens.ts'

/** An agent has one path for all questions, whatever server is behind it. One of a version before has none. */
export function agentTokenizer(runtimeId: string): Tokenizer {
  const asked = (ask: TokenAsk, question: Omit<AgentTokensRequest, 'runtime_id'>) =>
    ask(nodeTokensPath, { runtime_id: runtimeId, ...question } satisfies AgentTokensRequest)
  return {
    ofText: async (ask, { model, text, special, strings }) =>
      countedTokens(await asked(ask, { model, text, special, strings })),
    ofChat: async (ask, { model, chat, strings }) => countedTokens(await asked(ask, { model, chat, strings })),
    async textOf(ask, { model, ids }) {
      const said = foreignJson(await asked(ask, { model, tokens: ids as number[] }))
      return isObject(said) && typeof said.prompt === 'string' ? said.prompt : null
    },
  }
}
