import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import { isTokenId } from '../../protocol/wire/nodes/tokens.ts'
import { readTokenList } from './token-list.ts'
import { pick, type TextToRead, type TokenAsk, type Tokenizer, type Tokens } from './tokenizer.ts'

const chatMembers = [
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'chat_template_kwargs',
  'add_generation_prompt',
  'continue_final_message',
]

/** A piece that is no whole character comes as its bytes; they are written as vocabularies write them: `<0xE6>`. */
function pieceText(piece: unknown): string | null {
  if (typeof piece === 'string') return piece
  const isByte = (byte: unknown) => Number.isInteger(byte) && Number(byte) >= 0 && Number(byte) <= 255
  if (!Array.isArray(piece) || !piece.every(isByte)) return null
  return piece.map((byte: number) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`).join('')
}

function readPieces(text: string): Tokens | null {
  const said = foreignJson(text)
  if (!isObject(said) || !Array.isArray(said.tokens)) return null
  const ids: number[] = []
  const strings: string[] = []
  for (const token of said.tokens) {
    const piece = isObject(token) ? pieceText(token.piece) : null
    if (piece === null || !isTokenId(token.id)) return null
    ids.push(token.id)
    strings.push(piece)
  }
  return { ids, strings }
}

async function tokensOf(ask: TokenAsk, { model, text, special, strings }: TextToRead): Promise<Tokens | null> {
  const said = await ask('/tokenize', { model, content: text, add_special: special, with_pieces: strings })
  if (strings) return readPieces(said)
  const list = readTokenList(said)
  return list === null ? null : { ids: list.ids, strings: null }
}

/** llama.cpp has the two steps apart: the template makes a text of a chat, and the text is read as it reads its own prompts. */
export const llamaTokenizer: Tokenizer = {
  ofText: tokensOf,
  async ofChat(ask, { model, chat, strings }) {
    const said = foreignJson(await ask('/apply-template', { model, ...pick(chat, chatMembers) }))
    if (!isObject(said) || typeof said.prompt !== 'string') return null
    return tokensOf(ask, { model, text: said.prompt, special: true, strings })
  },
  async textOf(ask, { model, ids }) {
    const said = foreignJson(await ask('/detokenize', { model, tokens: ids }))
    return isObject(said) && typeof said.content === 'string' ? said.content : null
  },
}
