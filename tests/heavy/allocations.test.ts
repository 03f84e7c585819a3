import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { type CountedPool, startCountedPool } from '../support/pools/counted-pool.ts'
import { countedEnvironment, HeapCounter, type HeapCounts, madeEach } from '../support/run/heap-counting.ts'

/**
 * What the gateway makes for a request, by type: counts, not times. All is on that is on as shipped: log, metrics, receipts, records,
 * and the commits of what waits for the database, which many requests share.
 */
const requests = Number(process.env.ALLOCATIONS_REQUESTS ?? 3_000)
/** Code is compiled, and then makes fewer objects than before. */
const warmUpRequests = 2 * requests
const longWords = 101
const longStreams = Math.ceil(requests / 10)
const withinMs = 900_000

const shown = ['string', 'Object', 'Array', 'Function', 'JSLexicalEnvironment', 'Promise', 'Uint8Array'] as const
type Bounds = Readonly<Record<(typeof shown)[number], number>>
const bounds = {
  'a whole answer': {
    string: 80,
    Object: 80,
    Array: 38,
    Function: 18,
    JSLexicalEnvironment: 36,
    Promise: 8,
    Uint8Array: 16,
  },
  'a stream': {
    string: 120,
    Object: 110,
    Array: 45,
    Function: 30,
    JSLexicalEnvironment: 40,
    Promise: 15,
    Uint8Array: 16,
  },
  'a chunk': {
    string: 6,
    Object: 2.4,
    Array: 2.4,
    Function: 0.7,
    JSLexicalEnvironment: 0.9,
    Promise: 0.2,
    Uint8Array: 3,
  },
} as const satisfies Readonly<Record<string, Bounds>>
/** Of each turn of `known-objects.ts`. A promise that is made with a function comes with two, and the function is one, too. */
const known: HeapCounts = { Object: 2, Array: 1, Function: 4, Promise: 1, Map: 1, string: 1 }

let pool: CountedPool
beforeAll(async () => {
  pool = await startCountedPool()
}, withinMs)
afterAll(async () => {
  await pool.stop()
})

function expectWithin(what: keyof typeof bounds, made: HeapCounts): void {
  const counts = shown.map((type) => `${type} ${(made[type] ?? 0).toFixed(1)}`)
  process.stderr.write(`${what}: ${counts.join(', ')}\n`)
  expect(shown.filter((type) => (made[type] ?? 0) > bounds[what][type])).toEqual([])
}

test('the counts of a program are what it makes', async () => {
  const times = 10_000
  const folder = mkdtempSync(join(tmpdir(), 'penstock-known-'))
  const script = resolve(import.meta.dir, '../support/run/known-objects.ts')
  const child = Bun.spawn([process.execPath, script, String(times)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...countedEnvironment(folder) },
  })
  try {
    await firstMatch(child.stdout, /ready/)
    const counter = new HeapCounter(child.pid, folder)
    const before = await counter.take()
    const made = madeEach(before, await counter.take(), times)
    expect(Object.keys(known).map((type) => [type, Math.round(10 * (made[type] ?? 0)) / 10])).toEqual(
      Object.entries(known),
    )
  } finally {
    child.kill('SIGKILL')
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
})

test(
  'decision 24: a whole answer makes few objects',
  async () => {
    await pool.made({}, warmUpRequests)
    expectWithin('a whole answer', await pool.made({}, requests))
  },
  withinMs,
)

test(
  'decision 24: the start of a stream, and a chunk of it, make few objects',
  async () => {
    await pool.made({ words: 5 }, warmUpRequests / 2)
    await pool.made({ words: longWords }, longStreams / 2)
    const short = await pool.made({ words: 1 }, requests)
    expectWithin('a stream', short)
    expectWithin('a chunk', madeEach(short, await pool.made({ words: longWords }, longStreams), longWords - 1))
  },
  withinMs,
)
