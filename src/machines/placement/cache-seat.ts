import { blockUnits } from './blocks.ts'

/** Shorter prompts say nothing of the length of a token: the template of a chat has tokens of its own. */
export const tokensMeasuredMin = 256
/** Bounds of what a token is believed to be long, and what one prompt changes of it. */
const unitsPerTokenLeast = 0.5
const unitsPerTokenMost = 16
const ratioShare = 0.1

/** A block in one cache. Links of a cache are a list by last use. */
export interface Link {
  readonly entry: Entry
  readonly seat: number
  /** UTF-16 units behind this block that the cache holds too: the end of the prompt that ended here, and its answer. */
  tailUnits: number
  older: Link | null
  newer: Link | null
}

/** A block and the caches that hold it: a bit set over seats, so that a prompt is looked up once and not once per route. */
export interface Entry {
  readonly block: number
  readonly words: number[]
  readonly links: Link[]
}

export interface Seat {
  readonly number: number
  oldest: Link | null
  newest: Link | null
  size: number
  /** UTF-16 units behind its blocks: of prompts' ends and answers. They take room, too. */
  tailUnits: number
  /** Blocks; not rounded, so that small corrections add up. */
  capacity: number
  /** As the runtime says; it shrinks below for misses in a row alone. null: the runtime does not say. */
  said: number | null
  /** Its server's events tell how much is in it: nothing is guessed. */
  reported: boolean
  /** UTF-16 units of a token, as its prompts have shown. */
  unitsPerToken: number
  /** Prompts in a row of which it had less than thought. */
  misses: number
  evicted: number
}

export const blocksIn = ({ size, tailUnits }: Seat) => size + tailUnits / blockUnits

export function setTail(seat: Seat, link: Link, units: number): void {
  seat.tailUnits += units - link.tailUnits
  link.tailUnits = units
}

export function unlink(seat: Seat, link: Link): void {
  if (link.older === null) seat.oldest = link.newer
  else link.older.newer = link.newer
  if (link.newer === null) seat.newest = link.older
  else link.newer.older = link.older
}

export function setBit(words: number[], seat: number): void {
  const word = seat >>> 5
  while (words.length <= word) words.push(0)
  words[word] = (words[word] ?? 0) | (1 << (seat & 31))
}

export function clearBit(words: number[], seat: number): void {
  const word = seat >>> 5
  words[word] = (words[word] ?? 0) & ~(1 << (seat & 31))
}

export function learnTokenLength(seat: Seat, units: number): void {
  const believed = Math.min(Math.max(units, unitsPerTokenLeast), unitsPerTokenMost)
  seat.unitsPerToken += ratioShare * (believed - seat.unitsPerToken)
}
