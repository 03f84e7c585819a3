import fc from 'fast-check'
import type { TestCustomer } from '../../support/gateways/gateway.ts'
import { patience } from '../../support/run/pace.ts'
import { type Heard, speak } from './asker.ts'
import { againMs, usableWithinMs } from './asking-lane.ts'
import { type BytesNode, startBytesNode } from './bytes-node.ts'
import { cutWrites } from './cut-writes.ts'
import { type FormTwist, formBytes, formTwists } from './form-twists.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { markersOf, newMarker } from './markers.ts'
import { newSecret } from './secrets.ts'
import { twistOf } from './twists.ts'
import { crossed, type Fault } from './verdict.ts'

interface FormCase {
  readonly customer: number
  readonly twists: readonly FormTwist[]
}

const formCase: fc.Arbitrary<FormCase> = fc.record(
  { customer: fc.nat(2), twists: formTwists },
  { noNullPrototype: true },
)
export type FormBatch = readonly FormCase[]

/** A hostile client has said all it wanted to say: it waits so long for more, ms. */
const lingerMs = 60

interface Owner {
  readonly customer: TestCustomer
  readonly node: BytesNode
}

/** Clients that send forms, each to a node of their own account: another's answer would be another node's. */
export class FormLane implements Lane<FormBatch> {
  readonly batches: fc.Arbitrary<FormBatch> = fc.array(formCase, { minLength: 1, maxLength: 4, size: 'max' })
  readonly unserved: string[] = []
  retried = 0
  readonly outOfStep = 0

  constructor(
    readonly name: string,
    private readonly gateway: HostileGateway,
    private readonly owners: readonly Owner[],
  ) {}

  kinds(batch: FormBatch): readonly string[] {
    return batch.map(({ twists: [first] }) => first?.kind ?? 'none')
  }

  async play(batch: FormBatch): Promise<readonly Fault[]> {
    const good = this.owners.map((_, at) => this.behave(at))
    const faults = await Promise.all([...batch.map((one) => this.attack(one)), ...good])
    return [...faults.flat(), ...(await this.behave(0))]
  }

  private form(customer: number, marker: string, twists: readonly FormTwist[]): Buffer {
    const { gateway, name: model } = this
    const key = this.owners[customer]?.customer.key ?? ''
    return formBytes(twists, { host: `${gateway.hostname}:${gateway.port}`, key, model, marker })
  }

  private async attack(one: FormCase): Promise<readonly Fault[]> {
    const marker = newMarker()
    const bytes = this.form(one.customer, marker, one.twists)
    const [unfinished, slow] = [twistOf(one.twists, 'form: unfinished'), twistOf(one.twists, 'form: slow')]
    const heard = await speak(this.gateway, {
      writes: cutWrites(bytes, unfinished?.keepPermille ?? null, slow?.atPermille ?? []),
      pauseMs: slow?.pauseMs ?? 0,
      halfClose: unfinished?.halfClose ?? false,
      leaveAfterMs: lingerMs,
    })
    const failed = heard.answers.filter(({ status }) => status === 500)
    const detail = JSON.stringify(heard.text.slice(0, 400))
    return [...crossed(heard.text, [marker]), ...failed.map((): Fault => ({ kind: 'status 500', detail }))]
  }

  /** On a busy machine a deadline of the gateway may strike, and its node look lost: then it is asked again. */
  private async behave(at: number, patient = patience(usableWithinMs)): Promise<readonly Fault[]> {
    const marker = newMarker()
    const heard = await speak(this.gateway, {
      writes: [this.form(at, marker, [{ kind: 'form: header', line: closing }])],
    })
    const faults = crossed(heard.text, [marker])
    if (faults.length > 0 || isTranscribed(heard, marker)) return faults
    this.retried++
    await Bun.sleep(againMs)
    if (patient()) return this.behave(at, patient)
    return [{ kind: 'unusable afterwards', detail: heard.text.slice(0, 400) }]
  }

  async rest(): Promise<void> {
    for (const { node } of this.owners) node.closeAll()
  }

  stop(): void {
    for (const { node } of this.owners) node.stop()
  }
}

const closing = 'Connection: close'

function isTranscribed({ answers }: Heard, marker: string): boolean {
  const [answer, ...more] = answers
  return answer?.status === 200 && more.length === 0 && markersOf(answer.body).join() === marker
}

export async function openFormLane(gateway: HostileGateway, at: number): Promise<FormLane> {
  const model = `whisper-forms-${at}`
  const owners = await Promise.all(
    [1, 2, 3].map(async (): Promise<Owner> => {
      const [customer, node] = [await gateway.customer(), startBytesNode(model)]
      const whose = { owner: customer.customerId, visibility: 'private' } as const
      // Agents carry no forms.
      await gateway.join({ url: node.url, apiKey: newSecret(), ...whose }, 'http')
      return { customer, node }
    }),
  )
  return new FormLane(model, gateway, owners)
}
