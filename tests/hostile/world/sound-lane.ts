import { AskingLane, type TwistedNode } from './asking-lane.ts'
import { startBytesNode } from './bytes-node.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import { transcribing } from './manners.ts'
import { playOf } from './node-answer.ts'
import { abroad } from './node-lane.ts'
import { type Twist, twists } from './node-twists.ts'
import type { QuotePlace } from './quoting.ts'
import { newSecret } from './secrets.ts'

/** What stands in an answer beside an error passes byte by byte (§28): that is the model's, whatever it is called. */
const passed: ReadonlySet<QuotePlace> = new Set(['other members', 'the usage', 'a member of ours'] as const)
const soundTwists = twists.filter((all) => all.every((one) => one.kind !== 'quoting' || !passed.has(one.where)))

/** A node that makes text of sound. Agents carry no sound, so it is reached by HTTP whatever the way. */
export async function openSoundLane(gateway: HostileGateway, at: number): Promise<AskingLane<Twist>> {
  const model = `whisper-sound-${at}`
  const bytes = startBytesNode(model)
  const node: TwistedNode<Twist> = {
    plan: (marker, twisted, wanted) => {
      bytes.plan(marker, playOf(twisted, wanted))
      // A form goes over a connection of its own.
      return false
    },
    forget: (marker) => bytes.forget(marker),
    wrote: (marker) => bytes.wrote(marker),
    confidedWith: () => [],
    quiet: (now) => bytes.quiet(now),
    rest: () => bytes.closeAll(),
    stop: () => bytes.stop(),
  }
  // Whoever sends sound sends it to machines of their own account.
  const owner = await gateway.customer({ policy: abroad, keyPolicy: abroad })
  const joining = { url: bytes.url, apiKey: newSecret(), owner: owner.customerId, visibility: 'private' } as const
  await gateway.join(joining, 'http')
  return new AskingLane({
    name: model,
    gateway,
    node,
    twists: soundTwists,
    model,
    customers: [owner],
    manner: transcribing,
  })
}
