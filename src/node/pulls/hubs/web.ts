import type { Hub } from './hub.ts'
import { type HubAnswer, succeeded } from './hub-fetch.ts'
import { PullFault } from './pull-fault.ts'

/** As it stands in the address: one with characters that are encoded there is no name for a file. */
const nameIn = (ref: string): string => (URL.canParse(ref) ? (new URL(ref).pathname.split('/').at(-1) ?? '') : '')

/** The last number of `Content-Range: bytes 0-0/123`; null: it does not say. */
function sizeIn({ headers }: HubAnswer): number | null {
  const size = Number(/\/(\d{1,16})$/.exec(headers.get('content-range') ?? '')?.[1])
  return Number.isSafeInteger(size) && size > 0 ? size : null
}

/** One file by its address, from an origin that the owner names. The operator gives its hash with the order. */
export const web: Hub = {
  name: 'web',
  base: null,
  handsOverTo: [],
  tokenVariable: null,
  modelOf: (ref) =>
    nameIn(ref)
      .replace(/\.gguf$/i, '')
      .toLowerCase(),
  async find({ ref, sha256, get }) {
    if (sha256 === null || !/\.gguf$/i.test(nameIn(ref))) throw new PullFault('not_found')
    const answer = succeeded(await get(ref, { range: 'bytes=0-0' }))
    answer.leave()
    const bytes = sizeIn(answer)
    if (answer.status !== 206 || bytes === null) throw new PullFault('hub_malformed')
    return { files: [{ name: nameIn(ref), url: ref, bytes, sha256 }] }
  },
}
