import fc from 'fast-check'
import { type SealedError, sealedFetch } from '../../../src/client/sealed/sealed-fetch.ts'
import { responseNonceHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { publicKeyOf } from '../../../src/protocol/sealed/sealed-key.ts'
import type { SealedNode, SealedNodeList } from '../../../src/protocol/wire/inference/sealed.ts'
import type { TestCustomer } from '../../support/gateways/gateway.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { patience } from '../../support/run/pace.ts'
import type { Answer } from './answers.ts'
import { type Heard, speak } from './asker.ts'
import { againMs, usableWithinMs } from './asking-lane.ts'
import { type BytesNode, startBytesNode } from './bytes-node.ts'
import { cutWrites } from './cut-writes.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { markersOf, newMarker } from './markers.ts'
import { type SealedTwist, sealedBytes, sealedTwists, staysClosed } from './sealed-twists.ts'
import { newSecret } from './secrets.ts'
import { twistOf } from './twists.ts'
import type { Fault } from './verdict.ts'

interface SealedCase {
  readonly stream: boolean
  readonly twists: readonly SealedTwist[]
}

const sealedCase: fc.Arbitrary<SealedCase> = fc.record(
  { stream: fc.boolean(), twists: sealedTwists },
  { noNullPrototype: true },
)
export type SealedBatch = readonly SealedCase[]

/** After a request that is not whole nothing can come: its client waits so long, ms. */
const lingerMs = 60
/** Twists after which not even HTTP is in order. */
const disorderly: readonly SealedTwist['kind'][] = ['sealed: header', 'sealed: unfinished', 'sealed: slow']

const short = (text: string) => JSON.stringify(text.slice(0, 400))
const isSealed = ({ head }: Answer) => head.toLowerCase().includes(`\r\n${responseNonceHeader.toLowerCase()}:`)

/** Clients that seal wrongly, for a node behind an agent that opens rightly. */
export class SealedLane implements Lane<SealedBatch> {
  readonly batches: fc.Arbitrary<SealedBatch> = fc.array(sealedCase, { minLength: 1, maxLength: 5, size: 'max' })
  readonly unserved: string[] = []
  retried = 0
  readonly outOfStep = 0
  private readonly seal: typeof fetch

  constructor(
    readonly name: string,
    private readonly gateway: HostileGateway,
    private readonly server: BytesNode,
    private readonly customer: TestCustomer,
    private readonly node: SealedNode,
    private readonly publicKey: Uint8Array,
  ) {
    this.seal = sealedFetch({ gateway: gateway.url, trust: [node.fingerprint] })
  }

  kinds(batch: SealedBatch): readonly string[] {
    return batch.map(({ twists: [first] }) => first?.kind ?? 'none')
  }

  async play(batch: SealedBatch): Promise<readonly Fault[]> {
    const faults = await Promise.all([...batch.map((one) => this.attack(one)), this.behave(false), this.behave(true)])
    return [...faults.flat(), ...(await this.behave(false))]
  }

  private async attack({ stream, twists }: SealedCase): Promise<readonly Fault[]> {
    const { gateway, name: model, publicKey } = this
    const marker = newMarker()
    const bytes = await sealedBytes(twists, {
      ...{ host: `${gateway.hostname}:${gateway.port}`, key: this.customer.key, nodeId: this.node.node_id },
      ...{ model, marker, stream, publicKey },
    })
    const [unfinished, slow] = [twistOf(twists, 'sealed: unfinished'), twistOf(twists, 'sealed: slow')]
    const mayHang = twists.some(({ kind }) => disorderly.includes(kind))
    const say = () =>
      speak(gateway, {
        writes: cutWrites(bytes, unfinished?.keepPermille ?? null, slow?.atPermille ?? []),
        pauseMs: slow?.pauseMs ?? 0,
        halfClose: unfinished?.halfClose ?? false,
        ...(mayHang ? { leaveAfterMs: lingerMs } : {}),
      })
    const times = twistOf(twists, 'sealed: repeated')?.times ?? 1
    const all = await Promise.all(Array.from({ length: times }, say))
    return [...all.flatMap((heard) => this.faultsOf(heard, twists, mayHang)), ...runTwice(all)]
  }

  private faultsOf({ answers, text, end }: Heard, twists: readonly SealedTwist[], mayHang: boolean): readonly Fault[] {
    const faults: Fault[] = []
    const [answer, ...more] = answers
    if (answer?.status === 500) faults.push({ kind: 'status 500', detail: short(text) })
    // What a client says in its headers may come back to it. Of what it has sealed nothing may.
    if (twistOf(twists, 'sealed: header') === undefined && markersOf(text).length > 0) {
      faults.push({ kind: 'leak', detail: short(text) })
    }
    if (answer !== undefined && isSealed(answer) && answer.status === 200 && staysClosed(twists)) {
      faults.push({ kind: 'opened', detail: short(answer.head) })
    }
    if (mayHang) return faults
    if (answer === undefined || end === 'late') faults.push({ kind: 'no answer', detail: `${end} ${short(text)}` })
    else if (more.length > 0 || !answer.whole) faults.push({ kind: 'broken answer', detail: short(text) })
    return faults
  }

  /** Through the library, as a program would. A busy machine's deadline may strike: then it is asked again. */
  private async behave(stream: boolean, patient = patience(usableWithinMs)): Promise<readonly Fault[]> {
    const marker = newMarker()
    const body = JSON.stringify({ model: this.name, stream, messages: [{ role: 'user', content: marker }] })
    const heard = await this.seal(`${this.gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.customer.key}` },
      body,
    })
      .then((response) => response.text())
      .catch((error: unknown) => String((error as SealedError).message))
    const seen = markersOf(heard)
    if (seen.some((one) => one !== marker)) return [{ kind: 'crossed', detail: short(heard) }]
    if (seen.length > 0) return []
    this.retried++
    await Bun.sleep(againMs)
    if (patient()) return this.behave(stream, patient)
    return [{ kind: 'unusable afterwards', detail: short(heard) }]
  }

  async rest(): Promise<void> {
    this.server.closeAll()
  }

  stop(): void {
    this.server.stop()
  }
}

/** The same sealed bytes may be answered once. */
function runTwice(all: readonly Heard[]): readonly Fault[] {
  const ran = all.filter(({ answers: [answer] }) => answer !== undefined && isSealed(answer) && answer.status === 200)
  if (ran.length <= 1) return []
  return [{ kind: 'run twice', detail: `${ran.length} of ${all.length} were answered` }]
}

export async function openSealedLane(gateway: HostileGateway, at: number): Promise<SealedLane> {
  const model = `sealed-${at}`
  const [customer, server] = [await gateway.customer(), startBytesNode(model)]
  const whose = { owner: customer.customerId, visibility: 'private' } as const
  await gateway.join({ url: server.url, apiKey: newSecret(), ...whose }, 'agent')
  // An agent is there a moment before its keys are.
  const { node, publicKey } = await waitFor(`the agent of ${model} and its key`, async () => {
    const response = await fetch(`${gateway.url}/v1/sealed/nodes?model=${model}`, {
      headers: { authorization: `Bearer ${customer.key}` },
    })
    const [found] = ((await response.json()) as SealedNodeList).data
    const key = found?.keys.find(({ state }) => state === 'active')
    const known = key === undefined ? null : publicKeyOf(key)
    return found === undefined || known === null ? null : { node: found, publicKey: known }
  })
  return new SealedLane(model, gateway, server, customer, node, publicKey)
}
