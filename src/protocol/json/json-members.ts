import { skipBlanks, stringEnd } from './json-scan.ts'

const quote = 34
const comma = 44
/** Beyond it the keys are not compared one by one. */
const membersMax = 64
function skipContainer(text: string, at: number): number {
  let depth = 0
  for (let next = at; next < text.length; ) {
    const code = text.charCodeAt(next)
    if (code === quote) next = stringEnd(text, next)
    else {
      if (code === 123 || code === 91) depth++
      else if ((code === 125 || code === 93) && --depth === 0) return next + 1
      next++
    }
  }
  return text.length
}

function skipScalar(text: string, at: number): number {
  let next = at
  for (; next < text.length; next++) {
    const code = text.charCodeAt(next)
    if (code === comma || code === 125 || skipBlanks(text, next) !== next) break
  }
  return next
}

function skipValue(text: string, at: number): number {
  const code = text.charCodeAt(at)
  if (code === quote) return stringEnd(text, at)
  return code === 123 || code === 91 ? skipContainer(text, at) : skipScalar(text, at)
}

/**
 * The members of the object that `text` is, without those that `dropped` names, as they stand there, to be joined by commas;
 * the caller has parsed the text, so that it is valid JSON. null where the text of a key is not the key (an escape) or a
 * key comes twice: then only the parsed object says what is meant. Neighbours that stay are taken in one piece.
 */
export function cutMembers(text: string, dropped: (key: string) => boolean): readonly string[] | null {
  const keys: string[] = []
  const kept: string[] = []
  let from = -1
  let to = -1
  let at = skipBlanks(text, skipBlanks(text, 0) + 1)
  while (text.charCodeAt(at) === quote) {
    const keyEnd = stringEnd(text, at)
    const key = text.slice(at + 1, keyEnd - 1)
    if (key.includes('\\') || keys.includes(key) || keys.length === membersMax) return null
    keys.push(key)
    const end = skipValue(text, skipBlanks(text, skipBlanks(text, keyEnd) + 1))
    if (!dropped(key)) {
      if (from === -1) from = at
      to = end
    } else if (from !== -1) {
      kept.push(text.slice(from, to))
      from = -1
    }
    at = skipBlanks(text, end)
    if (text.charCodeAt(at) !== comma) break
    at = skipBlanks(text, at + 1)
  }
  if (from !== -1) kept.push(text.slice(from, to))
  return kept
}
