import { blockUnits, type Prompt, promptOf } from '../src/machines/placement/blocks.ts'
import { CacheView } from '../src/machines/placement/cache-view.ts'
import { place } from '../src/machines/rules/placement.ts'
import { nowMs, request, route, table } from '../tests/machines/rules/routes.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { markdown } from './table.ts'

const routesMost = 64
const promptBlocks = 100
/** Other conversations that the caches hold. */
const conversations = 400
const batchRuns = 200

const hash = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)

const promptFor = (conversation: number, blocks: number): Prompt => {
  const text = `${conversation}:`.padEnd(16, 'x').repeat((blocks * blockUnits) / 16)
  return promptOf('cus', 'm', { messages: [{ role: 'user', content: text }] }, hash)
}

/** The sample below which so large a share of the batches stayed. */
const quantile = (sorted: readonly number[], share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN

/** µs a run: of batches, so that the clock costs nothing. */
function timed(secs: number, run: () => unknown): { readonly p50: number; readonly p95: number } {
  const batches: number[] = []
  const warmUntil = performance.now() + 500
  while (performance.now() < warmUntil) run()
  const until = performance.now() + secs * 1_000
  while (performance.now() < until) {
    const began = performance.now()
    for (let at = 0; at < batchRuns; at++) run()
    batches.push(((performance.now() - began) * 1_000) / batchRuns)
  }
  const sorted = batches.toSorted((a, b) => a - b)
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) }
}

/** `holders`: routes whose caches hold all of the prompt; the others hold what else there is. */
function decision(routeCount: number, holders: number) {
  const routes = Array.from({ length: routeCount }, (_, at) => route(String(at), { slotsTotal: 8 }))
  const pool = table(...routes)
  const view = new CacheView()
  for (let at = 0; at < conversations; at++)
    view.record(routes[at % routeCount]?.profileId ?? '', promptFor(at + 1, promptBlocks / 4))
  const prompt = promptFor(0, promptBlocks)
  for (const { profileId } of routes.slice(0, holders)) view.record(profileId, prompt)
  return () => place(pool, looked(prompt, view))
}

const asked = request({ nowMs })
const looked = (prompt: Prompt, view: CacheView) => ({ ...asked, prompt, matches: view.match(prompt) })

/** What a choice of a node costs a request: looking its prompt up in all caches and weighing the routes, and hashing it before. */
export async function benchDecision({ secs }: Options): Promise<string> {
  const rows: string[][] = []
  const add = (name: string, unit: string, { p50, p95 }: ReturnType<typeof timed>) =>
    rows.push([name, unit, p50.toFixed(2), p95.toFixed(2)])
  add(
    `decision, ${routesMost} routes, ${promptBlocks} blocks in one cache`,
    'decision',
    timed(secs, decision(routesMost, 1)),
  )
  add(`… in 8 caches`, 'decision', timed(secs, decision(routesMost, 8)))
  add(`… in all ${routesMost}`, 'decision', timed(secs, decision(routesMost, routesMost)))
  add('decision, 8 routes', 'decision', timed(secs, decision(8, 1)))
  const content = 'All happy families are alike. '.repeat((promptBlocks * blockUnits) / 30)
  const source = { messages: [{ role: 'user', content }] }
  const whole = timed(secs, () => promptOf('cus', 'm', source, hash))
  add('hashing', 'block', { p50: whole.p50 / promptBlocks, p95: whole.p95 / promptBlocks })
  const wide = { messages: [{ role: 'user', content: content.replaceAll('happy', '幸福な') }] }
  const wideBlocks = promptOf('cus', 'm', wide, hash).blocks.length
  const other = timed(secs, () => promptOf('cus', 'm', wide, hash))
  add('hashing, not Latin-1', 'block', { p50: other.p50 / wideBlocks, p95: other.p95 / wideBlocks })
  const how = 'by batches of 200; median and 95th percentile of the batches'
  return ['## Decision', circumstances(how), markdown(['what', 'µs per', 'median', '95 %'], rows)].join('\n\n')
}
