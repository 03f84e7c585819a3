import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type BlockHash,
  blocksMax,
  blockUnits,
  inSession,
  type Prompt,
  promptOf,
} from '../../../src/machines/placement/blocks.ts'
import { CacheView, capacityBlocksLeast, sessionsMax } from '../../../src/machines/placement/cache-view.ts'
import { cheapest, fleetOf } from '../../../src/machines/placement/cost.ts'
import { newReading } from '../../../src/machines/placement/reading.ts'
import { routeWorthWaitingFor } from '../../../src/machines/placement/slot-line.ts'
import { route } from '../rules/routes.ts'

const hash: BlockHash = (text, seed) => Bun.hash.wyhash(text, seed)
const prompt = (messages: readonly unknown[], customer = 'c', model = 'm', more: object = {}) =>
  promptOf(customer, model, { messages, ...more }, hash)
const said = (content: unknown, role = 'user') => ({ role, content })
const long = (word: string) => `${word} `.repeat(1_000)

describe('§29 blocks', () => {
  test('a longer conversation begins with the blocks of its beginning, also inside one message', () => {
    const short = prompt([said(long('system'), 'system'), said('x'.repeat(3_000))])
    const more = prompt([said(long('system'), 'system'), said('x'.repeat(6_000)), said('hm', 'assistant')])
    expect(short.blocks.length).toBe(Math.floor(short.units / blockUnits))
    expect(more.blocks.slice(0, short.blocks.length)).toEqual([...short.blocks])
    expect(more.first).toBe(short.first)
  })

  test('customer, model, role, text, tools and response format all count from the first block on', () => {
    const base = [said(long('a'))]
    const all = [
      prompt(base),
      prompt(base, 'd'),
      prompt(base, 'c', 'n'),
      prompt([said(long('a'), 'system')]),
      prompt([said(`b${long('a')}`)]),
      prompt(base, 'c', 'm', { tools: [{ type: 'function' }] }),
      prompt(base, 'c', 'm', { response_format: { type: 'json_object' } }),
    ]
    expect(new Set(all.map(({ blocks }) => blocks[0])).size).toBe(all.length)
    expect(new Set(all.map(({ first }) => first)).size).toBe(all.length)
  })

  test('what is shorter than a block has a name too', () => {
    expect(prompt([said('hello')]).first).not.toBe(prompt([said('hellp')]).first)
    expect(prompt([said('hello')])).toMatchObject({ blocks: [], first: prompt([said('hello')]).first })
  })

  test('a picture counts by its hash, at no more than a few kilobytes', () => {
    let hashed = 0
    const counting: BlockHash = (text, seed) => {
      hashed += text.length
      return hash(text, seed)
    }
    const picture = (url: string) => [
      said([
        { type: 'image_url', image_url: { url } },
        { type: 'text', text: long('q') },
      ]),
    ]
    promptOf('c', 'm', { messages: picture('x'.repeat(8 * 1024 * 1024)) }, counting)
    expect(hashed).toBeLessThan(20_000)
    const of = (url: string) => prompt(picture(url)).blocks[0]
    expect(of(`${'x'.repeat(9_000)}a`)).not.toBe(of(`${'x'.repeat(9_000)}b`))
  })

  test('at most 512 blocks; anything in place of messages is read without harm', () => {
    expect(prompt([said('x'.repeat(1_000_000))]).blocks).toHaveLength(blocksMax)
    const odd = [null, 7, said(null), said([3, null, {}]), said({ a: 1 }), { role: {}, tool_calls: [1] }]
    expect(prompt(odd).units).toBeGreaterThan(0)
  })

  // The microseconds stand in `npm run bench -- decision`.
  test('hashing costs less than a cryptographic hash of the same text', () => {
    const messages = Array.from({ length: 10 }, (_, at) => said(String(at).padEnd(10_240, ' words')))
    const cryptographic = cpuMicroseconds(() => messages.map(({ content }) => Bun.sha(content as string)))
    const own = cpuMicroseconds(() => prompt(messages))
    expect(own).toBeLessThan(cryptographic)
  })
})

describe('§29 view of the caches', () => {
  const of = (...blocks: number[]) => ({ blocks, units: blocks.length * blockUnits })

  test('leading blocks alone count, per cache', () => {
    const view = new CacheView()
    view.record('a', of(1, 2, 3))
    view.record('b', of(1, 2))
    view.record('b', of(9, 8))
    const matches = view.match(of(1, 2, 3, 4))
    expect([matches.unitsOf('a'), matches.unitsOf('b'), matches.unitsOf('c')]).toEqual([3_072, 2_048, 0])
    expect(view.match(of(7, 2, 3)).unitsOf('a')).toBe(0)
  })

  test('the answer stands behind its prompt, for the next turn', () => {
    const view = new CacheView()
    view.record('a', { blocks: [1, 2], units: 2_500 })
    view.answered('a', { blocks: [1, 2] }, 1_000)
    expect(view.match({ blocks: [1, 2, 3, 4], units: 5_000 }).unitsOf('a')).toBe(3_500)
    expect(view.match({ blocks: [1, 2], units: 2_600 }).unitsOf('a')).toBe(2_600)
    expect(view.match({ blocks: [1, 7], units: 2_600 }).unitsOf('a')).toBe(blockUnits)
  })

  test('what was not used for longest is forgotten first, the end of a prompt before its beginning', () => {
    const view = new CacheView()
    view.reported('a', 512)
    expect(view.capacityOf('a')).toBe(4)
    view.record('a', of(1, 2))
    view.record('a', of(3, 4))
    view.record('a', of(1, 2))
    view.record('a', of(5))
    expect(view.match(of(1, 2)).unitsOf('a')).toBe(2_048)
    expect(view.match(of(3, 4)).unitsOf('a')).toBe(1_024)
    expect(view.evictedFrom('a')).toBe(1)
  })

  test('a runtime that had less than thought has a smaller cache, and not smaller than it says unless that is thrice in a row', () => {
    const view = new CacheView()
    view.reported('a', 25_600)
    view.record('a', of(1))
    const before = view.capacityOf('a')
    expect(before).toBe(200)
    view.corrected('a', 8, 0)
    expect(view.capacityOf('a')).toBe(180)
    view.corrected('a', 8, 8 * blockUnits)
    expect(view.capacityOf('a')).toBe(183)
    for (let i = 0; i < 50; i++) {
      for (let misses = 0; misses < 2; misses++) view.corrected('a', 8, 0)
      view.corrected('a', 8, 8 * blockUnits)
    }
    expect(view.capacityOf('a')).toBeWithin(100, 103)
  })

  test('§29: after three misses in a row of what was thought cached, the view is smaller than what it held', () => {
    const view = new CacheView()
    view.reported('a', 25_600)
    const long = of(...Array.from({ length: 100 }, (_, at) => at + 1))
    view.record('a', long)
    for (let misses = 0; misses < 2; misses++) view.corrected('a', 100, 0)
    expect(view.match(long).unitsOf('a')).toBe(100 * blockUnits)
    view.corrected('a', 100, 0)
    expect(view.match(long).unitsOf('a')).toBe(90 * blockUnits)
    for (let misses = 0; misses < 50; misses++) view.corrected('a', 50, 0)
    expect(view.capacityOf('a')).toBe(capacityBlocksLeast)
    // The next hits show that there was more.
    view.corrected('a', 8, 8 * blockUnits)
    expect(view.capacityOf('a')).toBe(Math.floor(capacityBlocksLeast * 1.02))
  })

  test('§29: answers and the ends of prompts take room in a cache, too', () => {
    const view = new CacheView()
    view.reported('a', 512)
    view.record('a', of(1, 2))
    view.answered('a', of(1, 2), 1.5 * blockUnits)
    view.record('a', of(3))
    expect(view.match(of(1, 2)).unitsOf('a')).toBe(blockUnits)
    expect(view.evictedFrom('a')).toBe(1)
  })

  test('a runtime that does not say how much it holds and had less than thought is thought smaller and smaller', () => {
    const view = new CacheView()
    view.record('a', of(1))
    expect(view.capacityOf('a')).toBe(1_024)
    for (let i = 0; i < 20; i++) {
      view.corrected('a', 8, i % 3 === 2 ? 8 * blockUnits : 0)
    }
    expect(view.capacityOf('a')).toBe(263)
    const long = of(...Array.from({ length: 300 }, (_, at) => at + 1))
    view.record('a', long)
    expect(view.match(long).unitsOf('a')).toBe(263 * blockUnits)
    for (let i = 0; i < 100; i++) view.corrected('a', 8, 0)
    expect(view.capacityOf('a')).toBe(capacityBlocksLeast)
    view.corrected('a', 8, 8 * blockUnits)
    for (let i = 0; i < 3; i++) view.corrected('a', 8, 8 * blockUnits)
    expect(view.capacityOf('a')).toBeGreaterThan(capacityBlocksLeast)
  })

  test('what a runtime says later counts from then on, and once', () => {
    const view = new CacheView()
    const long = of(...Array.from({ length: 200 }, (_, at) => at + 1))
    view.record('a', long)
    view.reported('a', 12_800)
    expect(view.match(long).unitsOf('a')).toBe(100 * blockUnits)
    view.corrected('a', 8, 0)
    view.reported('a', 12_800)
    expect(view.capacityOf('a')).toBe(90)
    view.reported('a', 262_144)
    expect(view.capacityOf('a')).toBe(2_048)
  })

  test('a cache that is gone is forgotten, and its seat used again', () => {
    const view = new CacheView()
    view.record('a', of(1, 2))
    view.record('b', of(1))
    view.forget('a')
    view.record('c', of(2))
    expect(view.match(of(1, 2)).unitsOf('a')).toBe(0)
    expect(view.match(of(1, 2)).unitsOf('b')).toBe(1_024)
    view.forget('b')
    view.forget('c')
    expect(view.size).toBe(0)
  })

  test('§29: of any history it says what one list per cache says', () => {
    const step = fc.record({ cache: fc.nat(69), blocks: fc.array(fc.nat(12), { maxLength: 6 }), forget: fc.nat(30) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.array(fc.nat(12), { maxLength: 6 }), (steps, asked) => {
        const view = new CacheView()
        const plain = new Map<number, Set<number>>()
        for (const { cache, blocks, forget } of steps) {
          view.record(`p${cache}`, of(...blocks))
          plain.set(cache, (plain.get(cache) ?? new Set()).union(new Set(blocks)))
          if (forget > 3) continue
          view.forget(`p${cache}`)
          plain.delete(cache)
        }
        const matches = view.match(of(...asked))
        for (let cache = 0; cache < 70; cache++) {
          const missing = asked.findIndex((block) => plain.get(cache)?.has(block) !== true)
          const leading = missing === -1 ? asked.length : missing
          expect(matches.unitsOf(`p${cache}`)).toBe(leading * blockUnits)
        }
      }),
      { numRuns: 300 },
    )
  })

  // The microseconds stand in `npm run bench -- decision`: here only that one index is walked, and not a cache per route.
  test('a decision at 64 routes and 100 blocks costs less than to ask each of their caches', () => {
    const view = new CacheView()
    const routes = Array.from({ length: 64 }, (_, at) => route(String(at))) as unknown as [ReturnType<typeof route>]
    const blocks = Array.from({ length: 100 }, (_, at) => 1e12 + at * 7_919)
    for (const { profileId } of routes) view.record(profileId, of(...blocks))
    const caches = routes.map(() => new Set(blocks))
    const asked = of(...blocks)
    const eachAsked = cpuMicroseconds(() => {
      let known = 0
      for (const cache of caches) for (const block of blocks) if (cache.has(block)) known++
      return known
    })
    const decide = () => cheapest(routes, { ...asked, first: 1 }, view.match(asked), Date.now())
    const decided = cpuMicroseconds(decide, eachAsked)
    const half = (inFlight: number) =>
      routes.slice(32).map((one) => ({ ...one, slotsTotal: 4, load: { ...one.load, inFlight } }))
    const [open, full] = [half(0) as unknown as typeof routes, half(4)]
    const weighed = cpuMicroseconds(() => {
      const asking = { prompt: asked, matches: view.match(asked), nowMs: Date.now(), fleet: fleetOf(open, full) }
      const { costs, cost } = cheapest(open, { ...asked, first: 1 }, asking.matches, asking.nowMs, asking.fleet)
      return routeWorthWaitingFor(
        full,
        { open, costs, totalMs: cost.totalMs, cold: false },
        { ...asking, waitMs: 10_000 },
      )
    }, eachAsked)
    expect([decided < eachAsked, weighed < eachAsked]).toEqual([true, true])
  })
})

/**
 * Processor time of the best of several rounds: other processes must not count. Of more of them while none is below `enough`: on a busy machine the compiler,
 * which has a thread of its own, comes late.
 */
function cpuMicroseconds(work: () => unknown, enough = Number.POSITIVE_INFINITY): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 12 || (best >= enough && round < 200); round++) {
    const before = process.cpuUsage()
    for (let at = 0; at < 1_000; at++) work()
    const { user, system } = process.cpuUsage(before)
    best = Math.min(best, (user + system) / 1_000)
  }
  return best
}

describe('§28: what a client says belongs together', () => {
  const of = (session?: number) => ({ blocks: [], units: 10, ...(session === undefined ? {} : { session }) })
  const candidate = (profileId: string, lagMs = 0) => ({
    cache: { profileId },
    slotsTotal: 4,
    load: { inFlight: 0, durationEwmaMs: null, reading: { ...newReading(profileId), lagMs } },
  })

  test('its last node is known, until too many others came', () => {
    const view = new CacheView()
    view.record('a', of(1))
    view.record('b', of(2))
    view.record('c', of(1))
    expect([view.match(of(1)).holder, view.match(of(2)).holder]).toEqual(['c', 'b'])
    expect([view.match(of(3)).holder, view.match(of()).holder]).toEqual([null, null])
    for (let session = 10; session < 10 + sessionsMax - 1; session++) view.record('d', of(session))
    expect([view.match(of(1)).holder, view.match(of(2)).holder]).toEqual(['c', null])
  })

  test('it stays there, unless another node is so much sooner', () => {
    const view = new CacheView()
    view.record('a', of(1))
    const chosen = (lagMs: number, session?: number) => {
      const prompt = { ...of(session), first: session ?? 0 }
      const routes = [candidate('a', lagMs), candidate('b')] as const
      return cheapest([...routes], prompt, view.match(prompt), 0).route.cache.profileId
    }
    expect([chosen(40, 1), chosen(60, 1), chosen(40)]).toEqual(['a', 'b', 'b'])
  })

  test('a key is another one for another customer, and stands before what is seen of the prompt', () => {
    const prompt = promptOf('c', 'm', { messages: [{ role: 'user', content: 'x' }] }, hash)
    const [one, two] = ['one', 'two'].map((customer) => inSession(prompt, customer, 'key', hash))
    expect(one?.session).not.toBe(two?.session)
    expect(one?.first).toBe(one?.session as number)
    expect(inSession(prompt, 'one', 'key', hash)).toEqual(one as Prompt)
  })

  test('a mark names all that stands before it, whatever comes after', () => {
    const marked = { type: 'text', text: 'rules', cache_control: { type: 'ephemeral' } }
    const ask = (rules: unknown, said: string) =>
      promptOf(
        'c',
        'm',
        {
          messages: [
            { role: 'system', content: [rules] },
            { role: 'user', content: said },
          ],
        },
        hash,
      ).session
    expect(ask(marked, 'a')).toBeNumber()
    expect(ask(marked, 'a')).toBe(ask(marked, 'b') as number)
    expect(ask(marked, 'a')).not.toBe(ask({ ...marked, text: 'others' }, 'a') as number)
    expect(ask({ type: 'text', text: 'rules' }, 'a')).toBeUndefined()
  })
})
