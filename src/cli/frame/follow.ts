import { secondMs } from '../../time.ts'
import { untilSignal } from './until-signal.ts'

const lookEveryMs = 2 * secondMs
/** How many shown entries are remembered, so that none is shown twice. */
const rememberedMax = 20_000

export interface Followed<T> {
  /** The newest entries there are, oldest first. */
  readonly read: () => Promise<readonly T[]>
  readonly idOf: (entry: T) => string
  readonly show: (entry: T) => void
  /** How many of those that there are already are shown first. */
  readonly first: number
  /** End after these. */
  readonly once: boolean
}

/** Shows the entries of a list as they come, each once, until Ctrl-C. */
export async function follow<T>({ read, idOf, show, first, once }: Followed<T>): Promise<void> {
  const seen = new Set<string>()
  const remember = (entry: T) => {
    if (seen.size >= rememberedMax) for (const id of [...seen].slice(0, rememberedMax / 2)) seen.delete(id)
    seen.add(idOf(entry))
  }
  const there = await read()
  there.forEach(remember)
  for (const entry of first === 0 ? [] : there.slice(-first)) show(entry)
  if (once) return
  let ended = false
  const end = untilSignal().then(() => {
    ended = true
  })
  while (!ended) {
    await Promise.race([Bun.sleep(lookEveryMs), end])
    if (ended) break
    for (const entry of await read()) {
      if (seen.has(idOf(entry))) continue
      remember(entry)
      show(entry)
    }
  }
}
