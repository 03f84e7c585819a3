import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject, type Json } from '../../protocol/json/json-object.ts'
import { tokenIdMax } from '../../protocol/wire/nodes/tokens.ts'

/** Tokens of one answer. Prompts of whole books have fewer. */
export const tokensMax = 1_000_000

export interface TokenList {
  readonly ids: readonly number[]
  /** The answer without them. */
  readonly rest: Json
}

/** Within a text of JSON its quotes are escaped, so that nothing inside of one looks like this. */
const listStart = /"tokens"[ \t\r\n]{0,8}:[ \t\r\n]{0,8}\[/

const comma = 44
const zero = 48
const nine = 57
const closeBracket = 93
const isBlank = (code: number) => code === 32 || code === 10 || code === 13 || code === 9

/**
 * An answer with a list of whole numbers as `tokens`. The list is read apart: it may be longer than arrays of foreign
 * JSON are, and of numbers alone. null: it is no such answer, or one with more tokens than `tokensMax`.
 */
export function readTokenList(text: string): TokenList | null {
  const found = listStart.exec(text)
  if (found === null) return null
  const from = found.index + found[0].length
  const ids: number[] = []
  const end = readNumbers(text, from, ids)
  if (end === -1) return null
  const rest = foreignJson(text.slice(0, from) + text.slice(end))
  return isObject(rest) ? { ids, rest } : null
}

/** `from`: behind the opening bracket. Returns the place of the closing one; -1: something else stands there. */
function readNumbers(text: string, from: number, ids: number[]): number {
  let id = -1
  // After a number comes a comma or the end; after a comma, a number.
  let wantsNumber = false
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= zero && code <= nine) {
      id = Math.max(0, id) * 10 + code - zero
      if (id > tokenIdMax) return -1
      const next = text.charCodeAt(at + 1)
      if (next >= zero && next <= nine) continue
      if (ids.length >= tokensMax || (ids.length > 0 && !wantsNumber)) return -1
      ids.push(id)
      id = -1
      wantsNumber = false
    } else if (code === comma) {
      if (wantsNumber || ids.length === 0) return -1
      wantsNumber = true
    } else if (code === closeBracket) return wantsNumber ? -1 : at
    else if (!isBlank(code)) return -1
  }
  return -1
}
