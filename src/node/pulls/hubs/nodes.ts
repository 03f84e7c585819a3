import { Value } from '@sinclair/typebox/value'
import { sleep } from '../../../clock.ts'
import { GivenFiles } from '../../../protocol/wire/nodes/pulls.ts'
import { secondMs } from '../../../time.ts'
import type { Found, Hub, HubFile } from './hub.ts'
import { type HubAnswer, hubJson } from './hub-fetch.ts'
import { PullFault } from './pull-fault.ts'

/** `node_…/MODEL`. */
const refForm = /^node_[0-9A-Z]{26}\/(.+)$/
/** Between two looks whether the other computer has hashed its files, ms. */
const lookMs = secondMs

const hashing = 202
const refused = 409

/** Another node of the same owner, whose files come through the gateway: it reads what the ticket of the order stands for. */
export const nodes: Hub = {
  name: 'node',
  base: null,
  handsOverTo: [],
  tokenVariable: null,
  modelOf: (ref) => refForm.exec(ref)?.[1] ?? '',
  async find({ base, get, signal }): Promise<Found> {
    const url = `${base}/v1/node-agent/copies/files`
    let answer: HubAnswer = await get(url)
    while (answer.status === hashing) {
      answer.leave()
      await sleep(lookMs, signal)
      signal.throwIfAborted()
      answer = await get(url)
    }
    if (answer.status === refused) {
      answer.leave()
      throw new PullFault('not_given')
    }
    const given = await hubJson(answer)
    if (!Value.Check(GivenFiles, given)) throw new PullFault('hub_malformed')
    const files = given.files.map((file, at): HubFile => ({ ...file, url: `${url}/${at}` }))
    const [first, ...more] = files
    if (first === undefined) throw new PullFault('not_found')
    return { files: [first, ...more] }
  },
}
