import { readFileSync } from 'node:fs'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { gatewayOn, model, type Target } from './targets.ts'

/** Streams at once, and chunks of each, one every so many µs: as many as a person's programs have, not as fast as can be. */
const streams = 64
const chunks = 100
const chunkUs = 10_000
/** Of the kernel's clock in /proc, a second: the same on every Linux. */
const ticksPerSecond = 100
const answerWithinMs = 60_000

const text = `[[bench n=${chunks} us=${chunkUs}]] hello`
const messages = [{ role: 'user', content: text }]
/** What each asks for, and how a stream of it ends well. */
export const dialects = {
  chat: { path: '/v1/chat/completions', body: { messages }, end: 'data: [DONE]' },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 100_000 }, end: 'event: message_stop' },
  responses: { path: '/v1/responses', body: { input: text }, end: 'event: response.completed' },
} as const
type Dialect = keyof typeof dialects
const names = Object.keys(dialects) as Dialect[]

/** User and system time of a process so far, µs. */
function cpuUs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [, , , , , , , , , , , user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  return ((user + system) * 1_000_000) / ticksPerSecond
}

/** One stream read to its end; false: it did not end well. */
async function stream({ url, key }: Target, name: Dialect): Promise<boolean> {
  const { path, body, end } = dialects[name]
  const response = await fetch(new URL(path, url), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, ...body }),
    signal: AbortSignal.timeout(answerWithinMs),
  })
  return (await response.text()).includes(end)
}

interface Sample {
  readonly cpuChunkUs: number
  readonly errors: number
}

/** 64 streams at once, again and again for so long. */
async function measure(target: Target, name: Dialect, secs: number): Promise<Sample> {
  const untilMs = performance.now() + secs * 1_000
  const before = cpuUs(target.pid)
  let done = 0
  let errors = 0
  do {
    const ended = await Promise.all(Array.from({ length: streams }, () => stream(target, name).catch(() => false)))
    done += ended.length
    errors += ended.filter((well) => !well).length
  } while (performance.now() < untilMs)
  return { cpuChunkUs: (cpuUs(target.pid) - before) / (done * chunks), errors }
}

/** CPU of the gateway for a chunk of a stream of Messages and of Responses, against one of chat. */
export async function compareDialects(options: Options): Promise<string> {
  const samples: Record<Dialect, Sample[]> = { chat: [], messages: [], responses: [] }
  try {
    const mock = await startMock(options.pin?.loadCpu ?? null)
    const target = await gatewayOn([mock.url(0)], { cpu: options.pin?.proxyCpu ?? null })()
    for (const name of names) await measure(target, name, options.warmupSecs)
    for (let round = 0; round < options.rounds; round++) {
      // Nobody is always first.
      const turns = names.map((_, at) => names[(at + round) % names.length] ?? 'chat')
      for (const name of turns) samples[name].push(await measure(target, name, options.secs))
    }
  } finally {
    await stopAll()
  }
  const rows = names.map((name) => {
    const own = samples[name].map(({ cpuChunkUs }) => cpuChunkUs)
    const ratio = median(own.map((value, round) => value / (samples.chat[round]?.cpuChunkUs ?? value)))
    const errors = samples[name].reduce((sum, sample) => sum + sample.errors, 0)
    return [name, median(own).toFixed(1), ratio.toFixed(2), String(errors)]
  })
  const load = `${options.rounds} rounds of ${options.secs} s and more, ${streams} streams of ${chunks} chunks, one each ${chunkUs / 1_000} ms`
  const head = ['stream of', 'CPU µs/chunk', '÷ chat', 'errors']
  return ['## Dialects', circumstances(load), markdown(head, rows)].join('\n\n')
}
