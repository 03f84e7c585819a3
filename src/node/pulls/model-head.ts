import { type GgufHead, ggufHead } from './gguf.ts'
import { firstBytes, type HubFetch, succeeded } from './hubs/hub-fetch.ts'
import { PullFault } from './hubs/pull-fault.ts'
import { saysEnough } from './model-estimate.ts'

const mib = 1024 * 1024
/** How much of a file is read for its header, one after the other until it is enough, bytes. */
const headBytes: readonly number[] = [mib, 16 * mib, 64 * mib]

/** What the header of a model at a hub says, before the rest of it is fetched. Rejects with `PullFault`. */
export async function modelHead(url: string, get: HubFetch): Promise<GgufHead> {
  let head: GgufHead | null = null
  for (const bytes of headBytes) {
    // A hub that knows no ranges sends the whole file.
    const answer = succeeded(await get(url, { range: `bytes=0-${bytes - 1}` }))
    head = ggufHead(await firstBytes(answer, bytes))
    if (head === null) throw new PullFault('not_a_model')
    if (saysEnough(head)) return head
  }
  throw new PullFault('not_a_model')
}
