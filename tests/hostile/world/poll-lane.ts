import fc from 'fast-check'
import { inTime } from '../../support/run/pace.ts'
import type { BytesNode } from './bytes-node.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { playOf } from './node-answer.ts'
import { type NodeLane, openBytesLane } from './node-lane.ts'
import { quoting, type Twist, twists } from './node-twists.ts'
import { leakedNames } from './pages.ts'
import type { Fault } from './verdict.ts'

/** A poll comes every quarter of a second, and may take half a second. */
const pollsMsMax = 60_000
/** What the first said is then shown, also where an agent asks and is asked itself. */
const pollsSeen = 3

/** Polls are few, and names of models are what they are for. Few spellings of a key may be a name. */
const naming = fc.record({
  ...quoting,
  kind: fc.constant('quoting' as const),
  where: fc.constant('the name of a model' as const),
  form: fc.constantFrom('the secret alone' as const, 'base64 of a URL' as const),
})
const pollTwists: fc.Arbitrary<readonly Twist[]> = fc.oneof(
  { weight: 2, arbitrary: twists },
  { weight: 1, arbitrary: naming.map((one) => [one]) },
)

/** A node that nobody needs to ask anything to be harmed by: its answers to polls are twisted. */
export class PollLane implements Lane<readonly Twist[]> {
  readonly batches: fc.Arbitrary<readonly Twist[]> = pollTwists
  readonly unserved: string[] = []

  constructor(
    private readonly gateway: HostileGateway,
    private readonly asking: NodeLane,
    private readonly bytes: BytesNode,
  ) {}

  get name(): string {
    return this.asking.name
  }

  get retried(): number {
    return this.asking.retried
  }

  get outOfStep(): number {
    return this.asking.outOfStep
  }

  kinds([first]: readonly Twist[]): readonly string[] {
    return [`poll: ${first?.kind}`]
  }

  async play(twisted: readonly Twist[]): Promise<readonly Fault[]> {
    const { bytes, asking, gateway } = this
    bytes.polls(playOf(twisted, 'models'))
    const polled = await inTime(bytes.polled(pollsSeen), pollsMsMax)
    const leaked = await leakedNames(gateway)
    bytes.polls(null)
    if (!polled) return [{ kind: 'unusable afterwards', detail: `${asking.name} is not polled` }]
    return [...leaked, ...(await asking.follow(0, Promise.resolve()))]
  }

  rest(): Promise<void> {
    return this.asking.rest()
  }

  stop(): void {
    this.asking.stop()
  }
}

export async function openPollLane(gateway: HostileGateway, at: number): Promise<PollLane> {
  const { lane, bytes } = await openBytesLane(gateway, 'own', `polls-${at}`)
  return new PollLane(gateway, lane, bytes)
}
