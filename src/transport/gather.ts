import type { CallSignal } from './call-signal.ts'
import type { NodeResponse } from './transport.ts'

/** What puts an answer together, piece by piece. */
export interface Gatherer {
  /** Something was said. */
  readonly contentSeen: boolean
  push(chunk: Uint8Array): GatherState
  end(): GatherState
}

type GatherState = 'open' | 'finishing' | 'complete' | 'broken'

export interface Gathered {
  /** False: what came is no answer. */
  readonly complete: boolean
  /** `performance.now()`; null: nothing was said. */
  readonly firstContentMs: number | null
}

/** A node that has answered in full may take this long to end its body; its connection then serves the next request. */
const lingerMs = 2_000

/**
 * Hands a body to the gatherer until the answer is complete or broken. An answer that is complete but for its usage waits
 * `usageWaitMs` for more. Rejects with `TransportError`.
 */
export function gather(
  response: NodeResponse,
  gatherer: Gatherer,
  signal: CallSignal,
  usageWaitMs: number,
): Promise<Gathered> {
  return new Promise((resolve, reject) => {
    let state: GatherState = 'open'
    let concluded = false
    let firstContentMs: number | null = null
    let timer: ReturnType<typeof setTimeout> | undefined
    const tell = (complete: boolean) => {
      concluded = true
      clearTimeout(timer)
      resolve({ complete, firstContentMs })
    }
    const conclude = (now: GatherState, bodyEnded: boolean) => {
      state = now
      if (firstContentMs === null && gatherer.contentSeen) firstContentMs = performance.now()
      if (state === 'open') return
      clearTimeout(timer)
      if (state === 'finishing') {
        timer = setTimeout(tell, usageWaitMs, true)
        return
      }
      tell(state === 'complete')
      if (state === 'broken') signal.abort()
      else if (!bodyEnded) timer = setTimeout(() => signal.abort(), lingerMs)
    }
    response.read({
      bytes: (chunk) => void (concluded || conclude(gatherer.push(chunk), false)),
      ended: () => (concluded ? clearTimeout(timer) : conclude(gatherer.end(), true)),
      failed: (error) => {
        clearTimeout(timer)
        if (concluded) return
        // The answer was complete but for its usage: a cut connection takes nothing away.
        if (state === 'finishing' && !signal.aborted) tell(true)
        else reject(error)
      },
    })
  })
}
