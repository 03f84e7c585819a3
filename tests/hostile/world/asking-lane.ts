import fc from 'fast-check'
import type { TestCustomer } from '../../support/gateways/gateway.ts'
import { patience } from '../../support/run/pace.ts'
import type { Wanted } from './answer-draft.ts'
import { type Heard, type Place, speak } from './asker.ts'
import type { Lane } from './lanes.ts'
import { chatting, type Manner } from './manners.ts'
import { markersOf, newMarker } from './markers.ts'
import { amplified, type Fault, secretFaults } from './verdict.ts'

/** A node that answers a request with twists, where it was told some, and as it should otherwise. */
export interface TwistedNode<T> {
  /**
   * True: it answers twice. What comes when the same customer's next request is on the connection looks like the answer to
   * that one, and may be (decision 11).
   */
  plan(marker: string, twists: readonly T[], wanted: Wanted): boolean
  forget(marker: string): void
  /** Bytes that it has written in answer to the request with this marker. */
  wrote(marker: string): number
  /** What it was told in confidence with this request, but for its API key. */
  confidedWith(marker: string): readonly string[]
  /** True: from now on no request of a twisted answer is on its way. */
  quiet(now: boolean): void
  /** What is idle. */
  rest(): void
  stop(): void
}

/** One request to a node that answers it with these twists. */
interface AskingCase<T> {
  readonly customer: number
  readonly stream: boolean
  /** The node sends the other kind of answer. */
  readonly mistaken: boolean
  readonly twists: readonly T[]
  readonly promptBytes: number
  readonly leaveAfterMs: number | null
  readonly deafMs: number | null
}

const seldom = <T>(weight: number, value: fc.Arbitrary<T>) =>
  fc.oneof({ weight, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: value })

const promptBytes = fc.oneof(
  { weight: 30, arbitrary: fc.nat(300) },
  { weight: 2, arbitrary: fc.nat(30_000) },
  { weight: 1, arbitrary: fc.nat(2_000_000) },
)

function asking<T>(twists: fc.Arbitrary<readonly T[]>): fc.Arbitrary<AskingCase<T>> {
  const parts = {
    customer: fc.nat(2),
    stream: fc.boolean(),
    mistaken: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    twists,
    promptBytes,
    leaveAfterMs: seldom(12, fc.nat(40)),
    deafMs: seldom(40, fc.nat(200)),
  }
  return fc.record(parts, { noNullPrototype: true })
}

/** At once, by several customers. */
export type AskingBatch<T> = readonly AskingCase<T>[]

/** A node that dials in has to do so first and to be asked how it is; on a busy machine it is more. */
export const usableWithinMs = 60_000
export const againMs = 60
const againMsMax = 500

/** One node, and those who ask it. */
export interface AskingOptions<T> {
  readonly name: string
  readonly gateway: Place
  readonly node: TwistedNode<T>
  readonly twists: fc.Arbitrary<readonly T[]>
  readonly model: string
  readonly customers: readonly TestCustomer[]
  /** Default: they chat. */
  readonly manner?: Manner
}

export class AskingLane<T extends { readonly kind: string }> implements Lane<AskingBatch<T>> {
  readonly batches: fc.Arbitrary<AskingBatch<T>>
  /** Whole answers of paid work that were none: nothing may be charged for them. */
  readonly unserved: string[] = []
  retried = 0
  outOfStep = 0
  /** By customer: the markers of requests that were answered twice. */
  private readonly twice = new Map<string, string[]>()

  constructor(private readonly options: AskingOptions<T>) {
    this.batches = fc.array(asking(options.twists), { minLength: 1, maxLength: 4, size: 'max' })
  }

  private get manner(): Manner {
    return this.options.manner ?? chatting
  }

  get name(): string {
    return this.options.name
  }

  kinds(batch: AskingBatch<T>): readonly string[] {
    return batch.map(({ twists: [first] }) => first?.kind ?? 'none')
  }

  async play(batch: AskingBatch<T>): Promise<readonly Fault[]> {
    const { node } = this.options
    node.quiet(false)
    const faults = (await Promise.all(batch.map((one) => this.ask(one)))).flat()
    const { promise, resolve } = Promise.withResolvers<void>()
    const followers = Array.from({ length: Math.max(2, this.options.customers.length) }, (_, at) =>
      this.follow(at, promise),
    )
    // Connected, so that their requests come together with what the node has yet to say.
    await Bun.sleep(1)
    node.quiet(true)
    await Bun.sleep(0)
    resolve()
    return [...faults, ...(await Promise.all(followers)).flat()]
  }

  private key(at: number): string {
    const { customers } = this.options
    return customers[at % customers.length]?.key ?? ''
  }

  private question(at: number, marker: string, stream: boolean, paddingChars = 0): Buffer | string {
    const { gateway: place, model } = this.options
    return this.manner.bytes({ place, key: this.key(at), model, marker, stream, paddingChars })
  }

  private async ask(one: AskingCase<T>): Promise<readonly Fault[]> {
    const { gateway, node } = this.options
    const marker = newMarker()
    const { stream, mistaken, leaveAfterMs, deafMs, promptBytes } = one
    const key = this.key(one.customer)
    const twice = node.plan(marker, one.twists, this.manner.wanted(stream !== mistaken))
    if (twice) this.twice.set(key, [...(this.twice.get(key) ?? []), marker])
    const heard = await speak(gateway, {
      writes: [this.question(one.customer, marker, stream, promptBytes)],
      ...(leaveAfterMs === null ? {} : { leaveAfterMs }),
      ...(deafMs === null ? {} : { deafMs }),
    })
    if (!stream) this.note(heard)
    const faults = this.faults(heard, marker, one.customer)
    node.forget(marker)
    return faults
  }

  private faults(heard: Heard, marker: string, customer: number): readonly Fault[] {
    const twice = this.twice.get(this.key(customer)) ?? []
    if (markersOf(heard.text).some((seen) => seen !== marker && twice.includes(seen))) this.outOfStep++
    const { node } = this.options
    return [
      ...this.manner.faults(heard, [marker, ...twice]),
      ...secretFaults(heard.text, node.confidedWith(marker)),
      ...amplified(heard.text.length, node.wrote(marker)),
    ]
  }

  private note({ answers: [answer], end }: Heard): void {
    const requestId = /\r\nx-request-id: (\S+)/i.exec(answer?.head ?? '')?.[1]
    if (end === 'closed' && requestId !== undefined && (answer?.status ?? 0) >= 400) this.unserved.push(requestId)
  }

  /** A well-behaved request to a node that behaves: it must be answered rightly, at once or when the node is trusted again. */
  async follow(at: number, after: Promise<void>): Promise<readonly Fault[]> {
    const { gateway } = this.options
    let last = ''
    const patient = patience(usableWithinMs)
    for (let tries = 0; patient(); tries++) {
      const marker = newMarker()
      const heard = await speak(gateway, { writes: [this.question(at, marker, (at + tries) % 2 === 0)], after })
      const faults = this.faults(heard, marker, at)
      this.options.node.forget(marker)
      if (faults.length > 0) return faults
      if (this.manner.isRight(heard, marker)) return []
      last = heard.text.slice(0, 400)
      this.retried++
      await Bun.sleep(Math.min(againMsMax, againMs * (tries + 1)))
    }
    return [{ kind: 'unusable afterwards', detail: last }]
  }

  async rest(): Promise<void> {
    this.twice.clear()
    this.options.node.rest()
  }

  stop(): void {
    this.options.node.stop()
  }
}
