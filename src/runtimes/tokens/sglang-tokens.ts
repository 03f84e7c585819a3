import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import { NoSuchTokenizer, pick, type Tokenizer } from './tokenizer.ts'
import { countedTokens } from './vllm-tokens.ts'

const path = '/tokenize'
const chatMembers = [
  'messages',
  'tools',
  'tool_choice',
  'reasoning_effort',
  'chat_template_kwargs',
  'continue_final_message',
]

/** SGLang, whose earlier versions refuse a chat and know texts alone. It says no strings. */
export const sglangTokenizer: Tokenizer = {
  ofText: async (ask, { model, text, special }) =>
    countedTokens(await ask(path, { model, prompt: text, add_special_tokens: special })),
  async ofChat(ask, { model, chat }) {
    // Its template always begins the answer.
    if (chat.add_generation_prompt === false) throw new NoSuchTokenizer()
    return countedTokens(await ask(path, { model, ...pick(chat, chatMembers) }))
  },
  async textOf(ask, { model, ids }) {
    const said = foreignJson(await ask('/detokenize', { model, tokens: ids, skip_special_tokens: false }))
    return isObject(said) && typeof said.text === 'string' ? said.text : null
  },
}
