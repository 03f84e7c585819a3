import { systemClock } from '../../clock.ts'
import { within } from '../../deadline.ts'
import { failureName } from '../../log.ts'

/** `GET /readyz` in words. */
export interface GatewayHealth {
  /**
   * `starting`: the nodes that are known or found have not been asked yet; `stopping`: no new work; `descriptors`: too many
   * connections are open; `database`: not reachable, or its migrations are not all there; `database_full`: no room to write.
   */
  readonly state: 'ready' | 'starting' | 'stopping' | 'descriptors' | 'database' | 'database_full'
}

export interface Health {
  ask(): Promise<GatewayHealth>
  /** The nodes were asked once, or that took too long. */
  started(): void
  beginStop(): void
}

/** However often somebody asks, the database is asked once in this time, ms. */
const askEveryMs = 1_000
/** A database that takes longer is not there, ms. */
const answerMsMax = 2_000
/** SQLSTATE: disk full, out of memory, and a limit of its configuration; 53300 is a database that cannot be reached. */
const fullCode = /^53(?!300)/

export function createHealth(askDatabase: () => Promise<unknown>, descriptors: { readonly scarce: boolean }): Health {
  let starting = true
  let stopping = false
  let asked: Promise<GatewayHealth> | null = null
  const forget = () => {
    asked = null
  }
  const ask = async (): Promise<GatewayHealth> => {
    try {
      await within(answerMsMax, askDatabase())
      return { state: 'ready' }
    } catch (error) {
      return { state: fullCode.test(failureName(error)) ? 'database_full' : 'database' }
    } finally {
      systemClock.after(askEveryMs, forget, false)
    }
  }
  return {
    ask: () => {
      if (stopping) return Promise.resolve({ state: 'stopping' })
      if (descriptors.scarce) return Promise.resolve({ state: 'descriptors' })
      if (starting) return Promise.resolve({ state: 'starting' })
      asked ??= ask()
      return asked
    },
    started: () => {
      starting = false
    },
    beginStop: () => {
      stopping = true
    },
  }
}
