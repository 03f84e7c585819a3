import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import { readTokenList } from './token-list.ts'
import { pick, type Tokenizer, type Tokens } from './tokenizer.ts'

const path = '/tokenize'
const chatMembers = ['messages', 'tools', 'chat_template_kwargs', 'add_generation_prompt', 'continue_final_message']

/** The answer of vLLM, which SGLang gives, too. A count that is another than its list has is no answer. */
export function countedTokens(text: string): Tokens | null {
  const list = readTokenList(text)
  if (list === null) return null
  const { ids, rest } = list
  if (rest.count !== ids.length) return null
  const { token_strs: strings = null } = rest
  if (strings === null) return { ids, strings }
  const whole =
    Array.isArray(strings) && strings.length === ids.length && strings.every((one) => typeof one === 'string')
  return whole ? { ids, strings } : null
}

/** vLLM. The special tokens of a chat come from its template. */
export const vllmTokenizer: Tokenizer = {
  ofText: async (ask, { model, text, special, strings }) =>
    countedTokens(await ask(path, { model, prompt: text, add_special_tokens: special, return_token_strs: strings })),
  ofChat: async (ask, { model, chat, strings }) =>
    countedTokens(await ask(path, { model, ...pick(chat, chatMembers), return_token_strs: strings })),
  async textOf(ask, { model, ids }) {
    const said = foreignJson(await ask('/detokenize', { model, tokens: ids }))
    return isObject(said) && typeof said.prompt === 'string' ? said.prompt : null
  },
}
