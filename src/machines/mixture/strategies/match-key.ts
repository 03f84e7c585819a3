import { canonicalJson } from '../../../protocol/json/canonical-json.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { answerText, toolCallsOf, withoutThinking } from './answer.ts'
import type { AnswerMessage } from './strategy.ts'

type Json = Readonly<Record<string, unknown>>
const isContainer = (value: unknown): value is Json => typeof value === 'object' && value !== null

/** The canonical form of a JSON object or array. null for any other text, and for a value that JCS cannot write. */
function canonical(text: string): string | null {
  try {
    const value = foreignJson(text)
    return isContainer(value) ? canonicalJson(value) : null
  } catch {
    return null
  }
}

/** Step 1: the called functions and their arguments. Ids are left out, because they differ in each call. */
function toolKey(calls: readonly unknown[]): string {
  const called = calls.map((call) => {
    const made: Json = isContainer(call) && isContainer(call.function) ? call.function : {}
    const { name, arguments: given } = made
    const text = typeof given === 'string' ? given : JSON.stringify(given ?? null)
    return `${JSON.stringify(name ?? null)}:${canonical(text) ?? JSON.stringify(text)}`
  })
  return `T:[${called.join(',')}]`
}

/** The content of the last `\boxed{…}` with balanced braces, or null. */
function boxed(text: string): string | null {
  const opening = '\\boxed{'
  const start = text.lastIndexOf(opening)
  if (start === -1) return null
  let depth = 1
  for (let at = start + opening.length; at < text.length; at++) {
    if (text[at] === '{') depth++
    else if (text[at] === '}' && --depth === 0) return text.slice(start + opening.length, at)
  }
  return null
}

/** Markdown marks may surround the word, as in `**Answer:** 4`. */
const answerLine = /^[ \t>*_#`]*(?:final[ \t]+)?answer[*_`]*[ \t]*[:：]/gim

/** The text after the last line that says `answer:`, or null. */
function announced(text: string): string | null {
  const last = [...text.matchAll(answerLine)].at(-1)
  if (last === undefined) return null
  const rest = text.slice(last.index + last[0].length)
  const [line = ''] = rest.split('\n', 1)
  // Some models write the answer in the line below the word.
  return withoutMarks(line) === '' ? rest : line
}

const marks = new Set('*_~` \t\r\n')

/** Removes marks and blanks around the text. It uses no pattern, because a hostile text could make a pattern slow. */
function withoutMarks(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && marks.has(text.charAt(from))) from++
  while (to > from && marks.has(text.charAt(to - 1))) to--
  return text.slice(from, to)
}

const fence = /^```[^\n`]*\n([\s\S]*?)\n?```$/
const singleQuotes = /[‘’‚‛′´]/g
const doubleQuotes = /[“”„‟″«»]/g
const dashes = /[‐‑‒–—―−]/g

/**
 * Step 5: unifies texts that look alike. `#`, `+` and `-` are removed only where they are marks, so `C#`, `C++` and
 * `-5` stay.
 */
function plain(text: string): string {
  const alike = text
    .replace(/^```[^\n`]*$/gm, '')
    .replace(doubleQuotes, '"')
    .replace(singleQuotes, "'")
    .normalize('NFKC')
    .toLowerCase()
    .replace(dashes, '-')
    .replace(/^[ \t]*>[ \t]?/gm, '')
    .replace(/^[ \t]*#{1,6}[ \t]+/gm, '')
    .replace(/^[ \t]*[-+][ \t]+(?=\p{L})/gmu, '')
    .replaceAll('`', '')
  return withoutMarks(alike)
}

/** A longer number counts as text, characters. */
const numberLengthMax = 1_024
const number =
  /^(?<sign>[-+]?)\s*\p{Sc}?\s*(?<whole>\d{1,3}(?:,\d{3})+|\d*)(?:\.(?<part>\d*))?\s*(?:\p{Sc}|(?<percent>%))?\.?$/u

/** Step 6 works on the digits themselves, so nothing is rounded. */
function numberKey(text: string): string | null {
  if (text.length > numberLengthMax) return null
  const groups = number.exec(text)?.groups
  if (groups === undefined) return null
  const { sign = '', whole: digits = '', part: decimals = '', percent = '' } = groups
  if (digits === '' && decimals === '') return null
  const whole = digits.replaceAll(',', '') || '0'
  const part = decimals.replace(/0+$/, '')
  const zero = /^0*$/.test(whole) && part === ''
  return `N:${sign === '-' && !zero ? '-' : ''}${whole}${part === '' ? '' : `.${part}`}${percent}`
}

const punctuation = /[!"'(),.:;?[\]{}<>|*_~]/g
const articles: ReadonlySet<string> = new Set(['a', 'an', 'the'])

/** Step 7 (the SQuAD metric's normalisation). An answer that is nothing but an article, as in a multiple choice, stays. */
function textKey(text: string): string | null {
  const words = text
    .replace(punctuation, '')
    .split(/\s+/)
    .filter((word) => word !== '')
  const kept = words.filter((word) => !articles.has(word))
  const key = (kept.length === 0 ? words : kept).join(' ')
  return key === '' ? null : `S:${key}`
}

/**
 * What makes two answers the same vote: the seven steps of §7, no likeness beyond. null: no answer at all.
 */
export function matchKey(message: AnswerMessage): string | null {
  const calls = toolCallsOf(message)
  if (calls.length > 0) return toolKey(calls)
  const spoken = withoutThinking(answerText(message)).trim()
  const said = (boxed(spoken) ?? announced(spoken) ?? spoken).trim()
  const meant = said === '' ? spoken : said
  // Step 4: a fence around the whole text is not part of the answer.
  const json = canonical(fence.exec(meant)?.[1] ?? meant)
  if (json !== null) return `J:${json}`
  const text = plain(meant)
  return numberKey(text) ?? textKey(text)
}
