import { startFakeNode } from '../src/fake-node/fake-node.ts'
import { type Aim, aims, plain } from '../tests/hostile/world/aimed-answers.ts'
import { ask, chatDialect, type Dialect, dialects, endOf } from '../tests/hostile/world/dialect-calls.ts'
import { type HostileGateway, startGatewayWithPulse } from '../tests/hostile/world/hostile-gateway.ts'
import { startScriptedNode } from '../tests/support/nodes/scripted-node.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { markdown, median } from './table.ts'

/** Of each answer: as many as made one process stand still for half a second. */
const answerBytes = 5_000_000
const goalMs = 50
const unavailable = 503
const againMs = 50
const attackers = 4
const neighbourRequests = 60
const neighboured: ReadonlySet<string> = new Set(['chat', 'responses'])
const attacked: ReadonlySet<string> = new Set([
  'tool calls in one chunk',
  'content and reasoning in turn',
  'small chunks',
  'one chunk of text',
])

/** `gathered`: asked for whole, and put together from a stream, as of a node that hears late that its client has left. */
type How = 'streamed' | 'whole' | 'gathered'
const nodes = { streamed: 'direct', whole: 'direct', gathered: 'late' } as const

interface Sample {
  readonly aim: string
  readonly dialect: string
  readonly how: How
  readonly turnMs: number
  /** Processor time of all of it, ns for a byte of the node. */
  readonly byteNs: number
  readonly ratio: number
  readonly end: string
}

interface Rig {
  readonly gateway: HostileGateway
  readonly key: string
  /** Of another customer, with a node that behaves. */
  readonly neighbourKey: string
  /** What the nodes send next. */
  body: Buffer
}

async function openRig(): Promise<Rig & { stop(): Promise<void> }> {
  const gateway = await startGatewayWithPulse({
    SVC_PROCESSES: '1',
    // A node that was found out is asked again at once.
    SVC_HOLD_DOWN_MS: '100',
    SVC_EJECTION_MS: '100',
    HOSTILE_BEAT_MS: '1',
  })
  const customer = await gateway.customer()
  const neighbour = await gateway.customer()
  const started = [startScriptedNode('direct'), startScriptedNode('late', 'llama.cpp')]
  const good = startFakeNode({ models: ['good'] })
  await gateway.node(good.url, { customerId: neighbour.customerId })
  const rig = { gateway, key: customer.key, neighbourKey: neighbour.key, body: Buffer.alloc(0) }
  for (const node of started) {
    node.answer((call) => {
      call.open(call.body.stream === true ? {} : { 'content-type': 'application/json' })
      void call.raw(rig.body).then(() => call.end())
    })
    await gateway.node(node.url, { customerId: customer.customerId })
  }
  const stop = async () => {
    for (const node of [...started, good]) node.stop()
    await gateway.stop()
  }
  return Object.assign(rig, { stop })
}

function bodyOf(aim: Aim, how: How): Buffer | null {
  const text = how === 'whole' ? aim.whole?.(answerBytes) : aim.stream?.(answerBytes)
  return text === undefined ? null : Buffer.from(text)
}

/** Asked again while its node is let be for what it sent before. */
async function measure(rig: Rig, aim: Aim, dialect: Dialect, how: How, body: Buffer): Promise<Sample> {
  for (;;) {
    const sample = await once(rig, aim, dialect, how, body)
    if (sample !== null) return sample
    await Bun.sleep(againMs)
  }
}

async function once(rig: Rig, aim: Aim, dialect: Dialect, how: How, body: Buffer): Promise<Sample | null> {
  const { gateway, key } = rig
  rig.body = body
  const before = await gateway.pulse({ collect: true })
  const answer = await ask(gateway, key, dialect, nodes[how], how === 'streamed')
  const after = await gateway.pulse()
  if (answer.status === unavailable) return null
  return {
    aim: aim.name,
    dialect: dialect.name,
    how,
    turnMs: after.worstSinceMs,
    byteNs: ((after.consumedMs - before.consumedMs) * 1_000_000) / body.length,
    ratio: answer.bytes / body.length,
    end: endOf(dialect, answer, how === 'streamed'),
  }
}

/** Text completions are never gathered: no node is asked for one as a stream in the place of a whole one. */
const plays = (dialect: Dialect, how: How) => how !== 'gathered' || dialect.name !== 'completions'

/** What the neighbour waits, ms, while four clients ask for aimed answers without a pause; null: no other client asks. */
async function neighbourMs(rig: Rig, dialect: Dialect, aim: Aim | null): Promise<{ median: number; worst: number }> {
  let over = false
  rig.body = aim === null ? rig.body : (bodyOf(aim, 'streamed') ?? rig.body)
  const attack = async () => {
    while (!over) {
      const { status } = await ask(rig.gateway, rig.key, dialect, nodes.streamed, true)
      if (status === unavailable) await Bun.sleep(againMs)
    }
  }
  const attacks = aim === null ? [] : Array.from({ length: attackers }, attack)
  const waits: number[] = []
  for (let one = 0; one < neighbourRequests; one++) {
    const began = performance.now()
    const answer = await ask(rig.gateway, rig.neighbourKey, chatDialect, 'good', false)
    if (answer.status === 200) waits.push(performance.now() - began)
  }
  over = true
  await Promise.all(attacks)
  return { median: median(waits), worst: Math.max(...waits) }
}

async function neighbourRows(rig: Rig): Promise<string[][]> {
  const rows: string[][] = []
  for (const dialect of dialects.filter(({ name }) => neighboured.has(name))) {
    const alone = await neighbourMs(rig, dialect, null)
    rows.push([dialect.name, 'nothing', alone.median.toFixed(1), alone.worst.toFixed(0)])
    for (const aim of aims.filter(({ name }) => attacked.has(name))) {
      const { median: middle, worst } = await neighbourMs(rig, dialect, aim)
      rows.push([dialect.name, aim.name, middle.toFixed(1), worst.toFixed(0)])
      process.stderr.write(`${dialect.name}, ${aim.name}: the neighbour waits ${middle.toFixed(1)} ms\n`)
    }
  }
  return rows
}

interface Measured {
  readonly samples: readonly Sample[]
  readonly neighbour: readonly string[][]
}

async function measureAll(rounds: number): Promise<Measured> {
  const rig = await openRig()
  const samples: Sample[] = []
  try {
    const neighbour = await neighbourRows(rig)
    for (const how of ['streamed', 'whole', 'gathered'] as const) {
      for (const dialect of dialects.filter((one) => plays(one, how))) {
        // What is compiled meanwhile is no chunk's doing.
        await measure(rig, plain, dialect, how, bodyOf(plain, how) ?? Buffer.alloc(0))
        for (const aim of aims) {
          const body = bodyOf(aim, how)
          if (body === null) continue
          const own: Sample[] = []
          for (let round = 0; round < rounds; round++) own.push(await measure(rig, aim, dialect, how, body))
          own.sort((a, b) => a.turnMs - b.turnMs)
          const sample = own[Math.floor(own.length / 2)] as Sample
          samples.push(sample)
          process.stderr.write(
            `${how} ${dialect.name}, ${aim.name}: ${sample.turnMs.toFixed(0)} ms, ${sample.ratio.toFixed(2)}, ${sample.byteNs.toFixed(0)} ns, ${sample.end}\n`,
          )
        }
      }
    }
    return { samples, neighbour }
  } finally {
    await rig.stop()
  }
}

/** Of each way and dialect, what was worst, and of what. */
function worstRows(samples: readonly Sample[]): string[][] {
  const groups = Map.groupBy(samples, ({ how, dialect }) => `${how}, ${dialect}`)
  return [...groups].map(([group, own]) => {
    const turn = own.reduce((a, b) => (b.turnMs > a.turnMs ? b : a))
    const ratio = own.reduce((a, b) => (b.ratio > a.ratio ? b : a))
    const over = own.filter(({ turnMs }) => turnMs > goalMs).length
    return [group, turn.turnMs.toFixed(0), turn.aim, ratio.ratio.toFixed(2), ratio.aim, `${over} of ${own.length}`]
  })
}

function aimRows(samples: readonly Sample[]): string[][] {
  const groups = Map.groupBy(samples, ({ aim }) => aim)
  return [...groups].map(([aim, own]) => {
    const of = (how: How) => {
      const turns = own.filter((sample) => sample.how === how).map(({ turnMs }) => turnMs)
      return turns.length === 0 ? '–' : Math.max(...turns).toFixed(0)
    }
    const ratio = Math.max(...own.map((sample) => sample.ratio))
    const cost = Math.max(...own.map((sample) => sample.byteNs))
    return [aim, of('streamed'), of('whole'), of('gathered'), ratio.toFixed(2), cost.toFixed(0)]
  })
}

/** The longest turn of the gateway's event loop, and what it writes, for answers that are aimed at it. */
export async function benchAimed(options: Options): Promise<string> {
  const { samples, neighbour } = await measureAll(options.rounds)
  const load = `answers of ${answerBytes / 1_000_000} MB in one write, one after the other, median of ${options.rounds}`
  const worst = markdown(
    ['way, dialect', 'longest turn, ms', 'of', 'written ÷ read', 'of', `turns over ${goalMs} ms`],
    worstRows(samples),
  )
  const each = markdown(
    ['answer', 'streamed: turn, ms', 'whole', 'gathered', 'written ÷ read', 'CPU, ns/byte'],
    aimRows(samples),
  )
  const waits = markdown(['dialect', 'four clients ask for', 'neighbour: median, ms', 'longest, ms'], neighbour)
  return ['## Aimed chunks', circumstances(load), worst, each, waits].join('\n\n')
}
