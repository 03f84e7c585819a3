/**
 * Bounds of all JSON from outside: clients, nodes, agents, gateways, chains (§27). JSON within them is cheap to parse,
 * to walk and to write again. The text of 80 kB of `[` parses at once, but takes 17 s to write.
 */
export const jsonDepthMax = 128
export const objectMembersMax = 10_000
export const arrayItemsMax = 100_000
/**
 * Bounds for the members of all objects together, and for all objects and arrays. More would block other requests
 * during the parsing.
 */
export const membersInAllMax = 400_000
export const containersMax = 400_000
/** Commas between items and members, all together: of numbers alone there would be millions. */
export const commasInAllMax = 1_000_000

interface JsonLimits {
  readonly membersInAllMax: number
  readonly containersMax: number
  readonly commasInAllMax: number
}
const bodyLimits: JsonLimits = { membersInAllMax, containersMax, commasInAllMax }
/** Of one chunk of a stream: a node may send one after the other, and each is parsed in one go. */
const chunkLimits: JsonLimits = { membersInAllMax: 65_536, containersMax: 65_536, commasInAllMax: 262_144 }

/** The faults, each as the end of a sentence about the text. */
const tooDeep = `nests deeper than ${jsonDepthMax} levels`
const tooManyMembers = `has an object with more than ${objectMembersMax} members`
const tooManyItems = `has an array with more than ${arrayItemsMax} items`
const tooMuch = `has more than ${membersInAllMax} members, ${containersMax} objects and arrays, or ${commasInAllMax} commas between them`

const quote = 34
const comma = 44
const colon = 58
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125
const isBlank = (code: number) => code === 32 || code === 10 || code === 13 || code === 9

/** `at`: behind what may be blanks. Returns the position behind what stands before them. */
export function skipBlanksBack(text: string, at: number): number {
  let before = at
  while (isBlank(text.charCodeAt(before - 1))) before--
  return before
}

export function skipBlanks(text: string, at: number): number {
  let next = at
  while (isBlank(text.charCodeAt(next))) next++
  return next
}

/** `at`: the opening quote. Returns the position after the closing one; jumps, so that a long text costs little. */
export function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end + 1
  }
  return text.length
}

/** The commas of each open container so far, and the allowed number. Only one scan at a time uses these arrays. */
const commasAround = new Int32Array(jsonDepthMax + 1)
const commasMaxAround = new Int32Array(jsonDepthMax + 1)

/** Positions are kept for this many members of the outermost object; no caller needs more. */
export const membersPlacedMax = 64
const placesMax = membersPlacedMax + 2

/**
 * The number of members of all objects in a JSON text, or the bound that it breaks. The scan stops there, and does not
 * check the syntax: the parser refuses invalid JSON, and meets nothing deep before it does. `places`: filled with the
 * positions where the outermost object opens, of the commas between its members, and where it closes.
 */
export function scanJson(text: string, places: number[] | null = null, limits = bodyLimits): number | string {
  const { length } = text
  let members = 0
  let containers = 0
  let commasInAll = 0
  let depth = 0
  let commas = 0
  let commasMax = 0
  for (let at = 0; at < length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = stringEnd(text, at) - 1
        break
      case comma:
        if (++commas > commasMax) return commasMax === objectMembersMax - 1 ? tooManyMembers : tooManyItems
        if (++commasInAll > limits.commasInAllMax) return tooMuch
        if (depth === 1 && places !== null && places.length < placesMax) places.push(at)
        break
      case colon:
        if (++members > limits.membersInAllMax) return tooMuch
        break
      case openBrace:
      case openBracket:
        if (depth === jsonDepthMax) return tooDeep
        commasAround[depth] = commas
        commasMaxAround[depth++] = commasMax
        commas = 0
        if (++containers > limits.containersMax) return tooMuch
        commasMax = (text.charCodeAt(at) === openBrace ? objectMembersMax : arrayItemsMax) - 1
        if (depth === 1 && places !== null) places.push(at)
        break
      case closeBrace:
      case closeBracket:
        if (depth === 0) return members
        if (depth === 1 && places !== null && places.length < placesMax) places.push(at)
        commas = commasAround[--depth] ?? 0
        commasMax = commasMaxAround[depth] ?? 0
    }
  }
  return members
}

/** Whether one chunk of a stream has more in all than may be parsed in one go, or breaks another bound. */
export function scanChunk(text: string): 'fits' | 'too much' | 'malformed' {
  const scanned = scanJson(text, null, chunkLimits)
  if (typeof scanned !== 'string') return 'fits'
  return scanned === tooMuch ? 'too much' : 'malformed'
}

/** How many keys the search for a repeated key reads. */
const keysSoughtMax = 100_000

/** Finds a key that one object has twice in valid JSON. null if the first keys contain none. */
export function repeatedKey(text: string): string | null {
  const open: Set<string>[] = []
  let sought = 0
  for (let at = 0; at < text.length && sought < keysSoughtMax; at++) {
    const code = text.charCodeAt(at)
    if (code === openBrace || code === openBracket) open.push(new Set())
    else if (code === closeBrace || code === closeBracket) open.pop()
    else if (code === quote) {
      const end = stringEnd(text, at)
      if (text.charCodeAt(skipBlanks(text, end)) === colon) {
        sought++
        const keys = open.at(-1)
        const key = JSON.parse(text.slice(at, end)) as string
        if (keys?.has(key)) return key
        keys?.add(key)
      }
      at = end - 1
    }
  }
  return null
}
