/** Stands where something was struck. */
export const struck = '[…]'

/** A shorter key may be an ordinary word, and is struck only where a text calls it a key. */
const keyCharsMin = 8
/** The least part of a cut-off secret that is struck as well: half of it, and no less than this. */
const cutCharsMin = 12
/** Longer keys are known by their beginning. */
const keyCharsMax = 512

/** JSON within JSON within JSON has 7 before a quote; no more are looked at. */
const backslashes = '\\\\{0,8}'

const literal = (text: string) => text.replace(/[^A-Za-z0-9]/g, '\\$&')
const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0')

/**
 * A character as it is, as an escape of JSON (also of JSON within JSON) or of a URL. Backslashes before the first one are left:
 * a pattern that begins with many of something takes long over a text of nothing else.
 */
function anySpelling(character: string, at: number): string {
  const code = character.charCodeAt(0)
  const encoded = code < 0x80 ? `|%${hex(code, 2)}` : ''
  return `${at === 0 ? '' : backslashes}(?:${literal(character)}|\\\\?u${hex(code, 4)}${encoded})`
}

const spelt = (text: string) => [...text].map(anySpelling).join('')

/** The key, or at least the first half of it, to the end of the word. */
function spellings(key: string): string {
  const least = key.length < cutCharsMin ? key.length : Math.max(cutCharsMin, Math.ceil(key.length / 2))
  const rest = backslashes + spelt(key.slice(least))
  return `${spelt(key.slice(0, least))}(?:${rest}|[\\w.~+/=%-]*)`
}

/** What all base64 texts have in common that hold the key: it may begin at any of three places of a group. */
function base64Spellings(key: string): readonly string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(key)])
    const inner = bytes.toString('base64').slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6))
    if (inner.length < keyCharsMin) return []
    const either = [...inner]
      .map((each) => (each === '+' ? '[+\\-]' : each === '/' ? `${backslashes}[/_]` : each))
      .join('')
    return [`${either}[A-Za-z0-9+/_=-]*`]
  })
}

/** What is struck, and what stays before it. */
type Rule = readonly [pattern: RegExp, by: string]

const named = '\\b(?:bearer|basic|authorization|api[-_ ]?key|token|secret|password)'
const between = '(?:[\\s"\'`:=\\\\+]|%3a|%20|%22){1,12}'

/** A longer run of what base64 is written with is no word: it may be a signature, without its name. */
const runCharsMin = 40
const escaped = '(?:%|\\\\{1,8}u00)[\\da-f]{2}'
/** Only runs with an escape in them, not far from where they begin: `cleanMessage` knows the others. */
const escapedRun = `(?=[\\w-]{0,${2 * runCharsMin}}${escaped})(?:[\\w-]|${escaped}){${runCharsMin},}`

/** What is no key of ours as far as anybody knows, and yet looks like one: another node's, or the router's signature. */
const alwaysTelling: readonly Rule[] = [
  [/\b(bearer(?:[\s"'`:=\\+]|%20){1,12})(?=[^\s"'`]{0,512}[0-9_.~+/=-])[\w.~+/=-]{8,}/gi, `$1${struck}`],
  [/\bkid(?:=|%3d|\\{1,8}u003d)[^\s"'`<>]+/gi, struck],
  [/\b((?:nonce|sig)(?:=|%3d|\\{1,8}u003d))[\w-]{8,}/gi, `$1${struck}`],
  [new RegExp(escapedRun, 'gi'), struck],
]

/**
 * What was sent to a node in confidence (its API key, the router's signature), to be struck from what it says: a node that
 * quotes the headers of its request would hand them on.
 */
export class Confidences {
  private readonly rules: readonly Rule[]
  private readonly whole: RegExp | null

  constructor(keys: readonly string[]) {
    const known = keys.filter((key) => key !== '').map((key) => key.slice(0, keyCharsMax))
    const long = known.filter(({ length }) => length >= keyCharsMin)
    const short = known.filter(({ length }) => length < keyCharsMin)
    this.rules = [
      ...long.map((key): Rule => [new RegExp(spellings(key), 'gi'), struck]),
      ...long.flatMap(base64Spellings).map((pattern): Rule => [new RegExp(pattern, 'g'), struck]),
      ...short.map((key): Rule => [new RegExp(`(${named}${between})${spelt(key)}(?![\\w-])`, 'gi'), `$1${struck}`]),
      ...alwaysTelling,
    ]
    const names = [...long.map(spelt), ...long.flatMap(base64Spellings)]
    this.whole = names.length === 0 ? null : new RegExp(names.join('|'), 'i')
  }

  /** The text without them. */
  strike(text: string): string {
    let clean = text
    for (const [pattern, by] of this.rules) clean = clean.replace(pattern, by)
    return clean
  }

  /** True for a name that holds one, such as that of a model. It cannot be struck, since it is what calls go by. */
  isIn(name: string): boolean {
    return this.whole?.test(name) ?? false
  }
}

/** Nothing is known of what the node was told. */
export const noConfidences = new Confidences([])
