/** `GET /readyz` in words. */
export interface GatewayHealth {
  /** `stopping`: no new work; `database`: not reachable, or its migrations are not all there. */
  readonly state: 'ready' | 'stopping' | 'database'
}

export interface Health {
  ask(): Promise<GatewayHealth>
  beginStop(): void
}

/** However often somebody asks, the database is asked once in this time, ms. */
const askEveryMs = 1_000
/** A database that takes longer is not there, ms. */
const answerMsMax = 2_000

export function createHealth(askDatabase: () => Promise<unknown>): Health {
  let stopping = false
  let asked: Promise<GatewayHealth> | null = null
  const ask = async (): Promise<GatewayHealth> => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('late')), answerMsMax)
    })
    try {
      await Promise.race([askDatabase(), late])
      return { state: 'ready' }
    } catch {
      return { state: 'database' }
    } finally {
      clearTimeout(timer)
      setTimeout(() => {
        asked = null
      }, askEveryMs).unref()
    }
  }
  return {
    ask: () => {
      if (stopping) return Promise.resolve({ state: 'stopping' })
      asked ??= ask()
      return asked
    },
    beginStop: () => {
      stopping = true
    },
  }
}
