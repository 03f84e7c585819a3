import type { Json } from '../../protocol/json/json-object.ts'

/** Of the answer to one question about tokens, bytes. A token of an ordinary list takes 4 to 8 of them. */
export const tokenAnswerBytesMax = 8 * 1024 * 1024

/** Asks the model server by POST. Resolves with the text of its 200, and rejects where it gives none. */
export type TokenAsk = (path: string, body: object) => Promise<string>

export interface Tokens {
  readonly ids: readonly number[]
  /** One for each; null: not asked for, or this kind of server does not say them. */
  readonly strings: readonly string[] | null
}

export interface TextToRead {
  /** As the server calls it. */
  readonly model: string
  readonly text: string
  /** With the tokens that the model expects around a text, such as its first one. */
  readonly special: boolean
  readonly strings: boolean
}

export interface ChatToRead {
  readonly model: string
  /** The members of a chat that its template may read. */
  readonly chat: Json
  readonly strings: boolean
}

export interface TokensToWrite {
  readonly model: string
  readonly ids: readonly number[]
}

/** This kind of server, or its version, has no answer to such a question. */
export class NoSuchTokenizer extends Error {
  override readonly name = 'NoSuchTokenizer'
}

/** The server has a tokenizer, and it does not take this text or these tokens. */
export class TokenizerRefusal extends Error {
  override readonly name = 'TokenizerRefusal'
}

/** How the tokenizer of one kind of server is asked. null: the answer holds no tokens. Each rejects with what `ask` rejects with. */
export interface Tokenizer {
  ofText(ask: TokenAsk, asked: TextToRead): Promise<Tokens | null>
  /** As the model would read the chat, with its template. */
  ofChat(ask: TokenAsk, asked: ChatToRead): Promise<Tokens | null>
  textOf(ask: TokenAsk, asked: TokensToWrite): Promise<string | null>
}

/** The members of a chat that this kind of server takes. */
export const pick = (chat: Json, names: readonly string[]): Json =>
  Object.fromEntries(names.flatMap((name) => (chat[name] === undefined ? [] : [[name, chat[name]]])))
