import fc from 'fast-check'
import { type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { type Aim, aims, plain } from './aimed-answers.ts'
import { ask, type Dialect, type DialectAnswer, dialects, endOf } from './dialect-calls.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { type NodeLane, openBytesLane } from './node-lane.ts'
import type { Fault } from './verdict.ts'

/** `gathered`: asked for whole, and put together from a stream. */
type How = 'streamed' | 'whole' | 'gathered'

interface AimedCase {
  readonly dialect: number
  readonly aim: number
  readonly how: How
  readonly kilobytes: number
}

const MiB = 1024 * 1024
const kilobyte = 1_000
const kilobytes = [20, 200, 1_000, 3_000] as const
const hows = ['streamed', 'streamed', 'whole', 'gathered'] as const
/** What the specification allows (§27). */
const writtenMax = (nodeBytes: number) => 8 * nodeBytes + 4 * MiB
/** Times what plain content of this size takes. What grows with the square of its size is beyond it; JSON of many names is not. */
const costFactor = 25
/** What a request costs whatever its answer, and what else the process does meanwhile, ms. */
const costFreeMs = 250
const calibrationBytes = 2_000_000
const calibrations = 5
const unavailable = 503
const againMs = 30

const bodyOf = (aim: Aim, how: How, bytes: number): string =>
  (how === 'whole' ? aim.whole?.(bytes) : aim.stream?.(bytes)) ?? ''

/** Answers that are made to cost a gateway more than they cost their node, asked for in every dialect. */
export class AimedLane implements Lane<readonly AimedCase[]> {
  readonly batches: fc.Arbitrary<readonly AimedCase[]>
  readonly unserved: string[] = []
  readonly outOfStep = 0
  private byteMs = 0

  constructor(
    readonly name: string,
    private readonly gateway: HostileGateway,
    private readonly key: string,
    private readonly nodes: Readonly<Record<'direct' | 'late', ScriptedNode>>,
    /** Well-behaved customers of a node that behaves. */
    private readonly good: NodeLane,
  ) {
    const one = fc.record(
      {
        dialect: fc.nat(dialects.length - 1),
        aim: fc.nat(aims.length - 1),
        how: fc.constantFrom(...hows),
        kilobytes: fc.constantFrom(...kilobytes),
      },
      { noNullPrototype: true },
    )
    this.batches = fc.tuple(one).map((batch) => batch)
  }

  get retried(): number {
    return this.good.retried
  }

  /** What a byte of plain content costs here and now. Before it nothing is said of what others cost. */
  async calibrate(): Promise<void> {
    const costs: number[] = []
    const [chat] = dialects as readonly [Dialect]
    const body = Buffer.from(bodyOf(plain, 'streamed', calibrationBytes))
    for (let round = 0; round < calibrations; round++) costs.push((await this.hear(chat, 'streamed', body)).costMs)
    this.byteMs = Math.max(...costs) / body.length
  }

  kinds(batch: readonly AimedCase[]): readonly string[] {
    return batch.map(({ aim, how }) => `${how}: ${aims[aim]?.name}`)
  }

  async play(batch: readonly AimedCase[]): Promise<readonly Fault[]> {
    const good = this.good.follow(0, Promise.resolve())
    const faults: Fault[] = []
    for (const one of batch) faults.push(...(await this.aimed(one)))
    return [...faults, ...(await good)]
  }

  private async aimed(one: AimedCase): Promise<readonly Fault[]> {
    const [aim, dialect] = [aims[one.aim] as Aim, dialects[one.dialect] as Dialect]
    const body = Buffer.from(bodyOf(aim, one.how, one.kilobytes * kilobyte))
    if (body.length === 0) return []
    const { answer, costMs } = await this.hear(dialect, one.how, body)
    const said = `${one.how}, ${dialect.name}, ${aim.name}`
    const faults: Fault[] = [...this.ends(answer, dialect, one.how, said)]
    if (answer.bytes > writtenMax(body.length)) {
      faults.push({ kind: 'amplified', detail: `${said}: ${answer.bytes} bytes for ${body.length}` })
    }
    const costMsMax = costFreeMs + costFactor * this.byteMs * body.length
    if (this.byteMs > 0 && costMs > costMsMax) {
      const cost = `${costMs.toFixed(0)} ms for ${body.length} bytes, ${costMsMax.toFixed(0)} allowed`
      faults.push({ kind: 'cost', detail: `${said}: ${cost}` })
    }
    return faults
  }

  private *ends(answer: DialectAnswer, dialect: Dialect, how: How, said: string): Generator<Fault> {
    const { status, text } = answer
    const short = text.slice(-300)
    if (status === 500) yield { kind: 'status 500', detail: `${said}: ${short}` }
    else if (status !== 200) {
      if (!text.includes('"error"')) yield { kind: 'broken answer', detail: `${said}: ${status} ${short}` }
    } else if (endOf(dialect, answer, how === 'streamed') === 'broken') {
      yield { kind: 'silent end', detail: `${said}: ${short}` }
    }
  }

  /** Asked again while the node is let be for what it sent before. */
  private async hear(dialect: Dialect, how: How, body: Buffer): Promise<{ answer: DialectAnswer; costMs: number }> {
    const model = how === 'gathered' ? 'late' : 'direct'
    this.nodes[model].answer((call) => {
      call.open(call.body.stream === true ? {} : { 'content-type': 'application/json' })
      void call.raw(body).then(() => call.end())
    })
    for (;;) {
      const { consumedMs } = await this.gateway.pulse()
      const answer = await ask(this.gateway, this.key, dialect, `${this.name}-${model}`, how === 'streamed')
      const costMs = (await this.gateway.pulse()).consumedMs - consumedMs
      if (answer.status !== unavailable) return { answer, costMs }
      await Bun.sleep(againMs)
    }
  }

  async rest(): Promise<void> {
    await this.good.rest()
  }

  stop(): void {
    for (const node of Object.values(this.nodes)) node.stop()
    this.good.stop()
  }
}

export async function openAimedLane(gateway: HostileGateway, at: number): Promise<AimedLane> {
  const name = `aimed-${at}`
  const customer = await gateway.customer()
  const nodes = { direct: startScriptedNode(`${name}-direct`), late: startScriptedNode(`${name}-late`, 'llama.cpp') }
  for (const { url } of Object.values(nodes)) await gateway.node(url, { customerId: customer.customerId })
  const { lane: good } = await openBytesLane(gateway, 'own', `${name}-good`)
  return new AimedLane(name, gateway, customer.key, nodes, good)
}
