import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Made, nodes, ours } from './world/both-clients.ts'
import { playOf } from './world/node-answer.ts'
import { type Twist, twists } from './world/node-twists.ts'

/**
 * The gateway's reader of responses against Node's own (`node:http`), on the same bytes. Where both take them for an
 * answer, it is the same one. What the gateway takes and Node does not is listed here, with the reason why it may.
 */
const tolerated: readonly {
  readonly what: string
  readonly why: string
  readonly is: (twists: readonly Twist[], mine: Made) => boolean
}[] = [
  {
    what: 'bytes behind a whole answer',
    why: 'The answer is whole and belongs to the request. The connection is closed, so that nobody gets what is behind it.',
    is: (_, mine) => mine.outcome === 'answer' && mine.excess === true,
  },
  {
    what: 'Content-Length beside Transfer-Encoding: chunked',
    why: 'RFC 9112, 6.3: chunked counts and the connection is closed. Some proxies in front of model servers send both.',
    is: (all) => has(all, 'framing', ({ how }) => how === 'chunked and length') || hasLine(all, /^Content-Length/),
  },
  {
    what: 'heads and trailers of more than 16 KiB',
    why: 'Bounded here as well, at 64 KiB for a head and 16 KiB for trailers; Node counts both together.',
    is: (all) => textOf(all).length > 8 * 1024,
  },
  {
    what: 'a line that ends with a line feed alone',
    why: 'RFC 9112, 2.2 allows it. A chunk that says one byte too many then takes the carriage return behind it as its own: the text of that node is wrong by one character, and what follows is still this answer.',
    is: (all) =>
      has(all, 'chunk sizes', ({ style }) => style === 'bare LF' || style === 'one byte more') ||
      hasLine(all, /[^\r]\n/),
  },
  {
    what: 'blanks behind the size of a chunk',
    why: 'Old servers pad sizes to a fixed width. The size ends where the digits end.',
    is: (all) => has(all, 'chunk sizes', ({ style }) => style === 'blank after'),
  },
  {
    what: 'a carriage return inside the extension of a chunk',
    why: 'Extensions are passed over up to the end of their line, bounded; they mean nothing here.',
    is: (all) => has(all, 'chunk sizes', ({ style }) => style === 'quoted extension'),
  },
  {
    what: 'control characters in the value of a header',
    why: 'No header of a node is handed on. The few that are read are compared with known words.',
    is: (all) => hasLine(all, /[\0\x07\x0b]|\r[^\n]/),
  },
  {
    what: 'trailers that are no header lines',
    why: 'Trailers are passed over unread, bounded. What follows a chunk of no bytes is one: a chunk of one byte that says one less.',
    is: (all) =>
      has(all, 'trailer', () => true) ||
      has(all, 'chunk sizes', ({ style }) => style === 'no empty line') ||
      has(all, 'chunk sizes', ({ style, sizes }) => style === 'one byte less' && sizes.includes(1)),
  },
]

function has<K extends Twist['kind']>(
  all: readonly Twist[],
  kind: K,
  holds: (one: Extract<Twist, { kind: K }>) => boolean,
): boolean {
  return all.some((one) => one.kind === kind && holds(one as Extract<Twist, { kind: K }>))
}

/** All that stands in heads and trailers because of twists. */
function textOf(all: readonly Twist[]): string {
  return all
    .map((one) => ('line' in one ? `${one.line}\r\n`.repeat('times' in one ? one.times : 1) : interim(one)))
    .join('')
}
const interim = (one: Twist) => (one.kind === 'interim answers' ? one.text.repeat(one.times) : '')
const hasLine = (all: readonly Twist[], pattern: RegExp) => new RegExp(pattern, 'm').test(textOf(all))

const samples = 4_000
const seed = Number(process.env.HOSTILE_SEED ?? 1)

interface Compared {
  readonly twists: readonly Twist[]
  readonly mine: Made
  readonly theirs: Made
}

const drawn = fc
  .sample(fc.tuple(twists, fc.constantFrom('whole' as const, 'stream' as const)), { numRuns: samples, seed })
  .filter(([all]) => all.every(({ kind }) => kind !== 'endless' && kind !== 'large JSON'))
  // What is cut anywhere and goes on with something else is any of the others, by chance.
  .filter(([all]) => !has(all, 'cut short', () => true) || !has(all, 'second answer', () => true))
const cases = drawn.map(([all, wanted]) =>
  playOf(all, wanted)
    .moves({ marker: 'marker', confided: null })
    .flatMap((move) => (move.do === 'write' ? [move.bytes] : [])),
)
const theirs = await nodes(cases)
const compared = drawn.map(([all], at) => ({ twists: all, mine: ours(cases[at] ?? []), theirs: theirs[at] as Made }))

/** The smallest of them, so that a failure shows little. */
function smallest(all: readonly Compared[]): readonly Compared[] {
  return all.toSorted((a, b) => JSON.stringify(a.twists).length - JSON.stringify(b.twists).length).slice(0, 3)
}

describe('the same bytes for the gateway and for Node', () => {
  test('what both take for an answer is the same answer', () => {
    const both = compared.filter(({ mine, theirs }) => mine.outcome === 'answer' && theirs.outcome === 'answer')
    expect(both.length).toBeGreaterThan(samples / 3)
    const text = (made: Made) => JSON.stringify({ ...made, excess: undefined })
    expect(smallest(both.filter(({ mine, theirs }) => text(mine) !== text(theirs)))).toEqual([])
  })

  test('what the gateway takes and Node refuses is on the list', () => {
    const more = compared.filter(({ mine, theirs }) => mine.outcome === 'answer' && theirs.outcome === 'refused')
    const counts = new Map(tolerated.map(({ what }) => [what, 0]))
    const unlisted: Compared[] = []
    for (const one of more) {
      const rule = tolerated.find(({ is }) => is(one.twists, one.mine))
      if (rule === undefined) unlisted.push(one)
      else counts.set(rule.what, (counts.get(rule.what) ?? 0) + 1)
    }
    console.table(Object.fromEntries(counts))
    expect(smallest(unlisted)).toEqual([])
  })

  test('a good answer is one for both', () => {
    const plain = compared.filter(({ twists: all }) => all.every(({ kind }) => kind === 'in pieces'))
    expect(plain.length).toBeGreaterThan(10)
    expect(plain.filter(({ mine, theirs }) => mine.outcome !== 'answer' || theirs.outcome !== 'answer')).toEqual([])
  })
})
