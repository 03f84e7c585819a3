import { membersPlacedMax, scanJson, skipBlanks, skipBlanksBack, stringEnd } from './json-scan.ts'

const quote = 34

/** Where the members of a text stand, as `scanJson` gives it. */
interface Placed {
  readonly text: string
  readonly places: readonly number[]
}

/** Of long texts, by their value: they were scanned before the parser, and a second scan takes a third as long as the parsing. */
const placed = new WeakMap<object, Placed>()
/** Scanning a shorter text again costs less than remembering it, UTF-16 units. */
export const placesKeptMin = 16 * 1024

/** `value`: of `text`, parsed. */
export function keepPlaces(value: object, text: string, places: readonly number[]): void {
  placed.set(value, { text, places })
}

/** null: the text breaks a bound of foreign JSON, as one of our own may, so the scan did not finish. */
function placesOf(text: string, value: object): readonly number[] | null {
  const kept = text.length < placesKeptMin ? undefined : placed.get(value)
  if (kept?.text === text) return kept.places
  const places: number[] = []
  return typeof scanJson(text, places) === 'string' ? null : places
}

/**
 * The members of the object in `text`, byte for byte, without those that `dropped` names, to be joined by commas.
 * `value`: the caller's parsed form, which proves that the text is valid JSON. null if a key is written with an escape,
 * a key comes twice, there are too many members, or the text breaks a bound: then only the parsed object is reliable.
 * Adjacent members that stay are taken in one piece.
 */
export function cutMembers(text: string, value: object, dropped: (key: string) => boolean): readonly string[] | null {
  const places = placesOf(text, value)
  if (places === null || places.length > membersPlacedMax + 1) return null
  const keys: string[] = []
  const kept: string[] = []
  let from = -1
  let to = -1
  for (let next = 1; next < places.length; next++) {
    const at = skipBlanks(text, (places[next - 1] ?? 0) + 1)
    if (text.charCodeAt(at) !== quote) break
    const key = text.slice(at + 1, stringEnd(text, at) - 1)
    if (key.includes('\\') || keys.includes(key)) return null
    keys.push(key)
    if (!dropped(key)) {
      if (from === -1) from = at
      to = skipBlanksBack(text, places[next] ?? at)
    } else if (from !== -1) {
      kept.push(text.slice(from, to))
      from = -1
    }
  }
  if (from !== -1) kept.push(text.slice(from, to))
  return kept
}
