import fc from 'fast-check'
import type { TestCustomer } from '../../support/gateways/gateway.ts'
import { patience } from '../../support/run/pace.ts'
import { chatBytes, type Heard, speak } from './asker.ts'
import { againMs, usableWithinMs } from './asking-lane.ts'
import { type BytesNode, startBytesNode } from './bytes-node.ts'
import { requestBytes } from './client-request.ts'
import { type ClientTwist, clientTwists } from './client-twists.ts'
import { cutWrites } from './cut-writes.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { markersOf, newMarker } from './markers.ts'
import { newSecret } from './secrets.ts'
import { twistOf } from './twists.ts'
import { chatFaults, crossed, type Fault, isRight } from './verdict.ts'

interface ClientCase {
  readonly customer: number
  readonly stream: boolean
  readonly twists: readonly ClientTwist[]
}

const parts = { customer: fc.nat(2), stream: fc.boolean(), twists: clientTwists }
const clientCase: fc.Arbitrary<ClientCase> = fc.record(parts, { noNullPrototype: true })
export type ClientBatch = readonly ClientCase[]

/** A hostile client has said all it wanted to say: it waits so long for more, ms. */
const lingerMs = 60

/** Clients of all kinds on one node that behaves. */
export class ClientLane implements Lane<ClientBatch> {
  readonly batches: fc.Arbitrary<ClientBatch> = fc.array(clientCase, { minLength: 1, maxLength: 6, size: 'max' })
  readonly unserved: string[] = []
  retried = 0
  readonly outOfStep = 0

  constructor(
    readonly name: string,
    private readonly gateway: HostileGateway,
    private readonly node: BytesNode,
    private readonly customers: readonly TestCustomer[],
  ) {}

  kinds(batch: ClientBatch): readonly string[] {
    return batch.map(({ twists: [first] }) => first?.kind ?? 'none')
  }

  async play(batch: ClientBatch): Promise<readonly Fault[]> {
    const good = this.customers.map((_, at) => this.behave(at))
    const faults = await Promise.all([...batch.map((one) => this.attack(one)), ...good])
    return [...faults.flat(), ...(await this.behave(0))]
  }

  private key(at: number): string {
    return this.customers[at % this.customers.length]?.key ?? ''
  }

  private async attack(one: ClientCase): Promise<readonly Fault[]> {
    const { gateway, name: model } = this
    const host = `${gateway.hostname}:${gateway.port}`
    const requests = 1 + (twistOf(one.twists, 'pipelined')?.more ?? 0)
    const markers = Array.from({ length: requests }, newMarker)
    const all = markers.map((marker, at) => {
      const asking = { host, model, marker, key: this.key(one.customer + at), adminToken: gateway.tokens.admin }
      return requestBytes(one.twists, { ...asking, stream: one.stream !== (at % 2 === 1) })
    })
    const deafMs = twistOf(one.twists, 'deaf client')?.deafMs
    const [unfinished, slow] = [twistOf(one.twists, 'unfinished'), twistOf(one.twists, 'slow request')]
    const heard = await speak(gateway, {
      writes: cutWrites(Buffer.concat(all), unfinished?.keepPermille ?? null, slow?.atPermille ?? []),
      pauseMs: slow?.pauseMs ?? 0,
      halfClose: unfinished?.halfClose ?? false,
      leaveAfterMs: lingerMs + (deafMs ?? 0),
      ...(deafMs === undefined ? {} : { deafMs }),
    })
    return [...crossed(heard.text, markers), ...this.connectionFaults(one, heard, markers)]
  }

  private connectionFaults(one: ClientCase, { answers }: Heard, markers: readonly string[]): readonly Fault[] {
    const faults: Fault[] = []
    const detail = (at: number) => JSON.stringify(`${answers[at]?.head}\n\n${answers[at]?.body}`.slice(0, 400))
    const orderly = one.twists.every(({ kind }) => kind === 'pipelined' || kind === 'slow request')
    answers.forEach(({ status, body }, at) => {
      if (status === 500) faults.push({ kind: 'status 500', detail: detail(at) })
      const wrong = markersOf(body).some((marker) => marker !== markers[at])
      if (orderly && wrong) faults.push({ kind: 'crossed', detail: `answer ${at}: ${detail(at)}` })
      if (status === 200 && body.includes('"customers":[')) faults.push({ kind: 'wrong route', detail: detail(at) })
    })
    return faults
  }

  /** On a busy machine a deadline of the gateway may strike, and its node look lost: then it is asked again. */
  private async behave(at: number, patient = patience(usableWithinMs)): Promise<readonly Fault[]> {
    const marker = newMarker()
    const messages = [{ role: 'user', content: marker }]
    const body = JSON.stringify({ model: this.name, stream: at % 2 === 0, messages })
    const heard = await speak(this.gateway, { writes: [chatBytes(this.gateway, this.key(at), body)] })
    const faults = chatFaults(heard, [marker])
    if (faults.length > 0 || isRight(heard, marker)) return faults
    this.retried++
    await Bun.sleep(againMs)
    if (patient()) return this.behave(at, patient)
    return [{ kind: 'unusable afterwards', detail: heard.text.slice(0, 400) }]
  }

  async rest(): Promise<void> {
    this.node.closeAll()
  }

  stop(): void {
    this.node.stop()
  }
}

export async function openClientLane(gateway: HostileGateway, at: number): Promise<ClientLane> {
  const model = `clients-${at}`
  const node = startBytesNode(model)
  const abroad = { min_privacy_class: 'public' } as const
  const policies = { policy: abroad, keyPolicy: abroad }
  const customers = await Promise.all([1, 2, 3].map(() => gateway.customer(policies)))
  const owner = customers[0]?.customerId ?? ''
  await gateway.join({ url: node.url, apiKey: newSecret(), owner, visibility: 'public' })
  return new ClientLane(model, gateway, node, customers)
}
