/** Of a model server that holds some of its models at a time, and loads another one for the first request that names it. */
export interface SimulatedMemory {
  readonly models: readonly string[]
  /** So many of them, the first ones, are there from the start. */
  readonly warm: number
  /** How many it can hold. */
  readonly holds: number
  /** What one load takes, in the node's own time. */
  readonly loadS: number
}

export interface HeldModels {
  readonly models: readonly string[]
  status(model: string): 'loaded' | 'loading' | 'unloaded'
  /** Resolves when the model is there, and stays until `leave`. */
  enter(model: string): Promise<void>
  leave(model: string): void
}

interface Waiting {
  readonly model: string
  readonly go: () => void
}

/**
 * One load at a time, for whoever waits longest. For it the model that was used longest ago goes, once nobody works with it any more; who
 * comes for that one meanwhile waits behind.
 */
export function holdModels({ models, warm, holds, loadS }: SimulatedMemory, speed: number): HeldModels {
  /** Who works with each, the one used longest ago first. */
  const loaded = new Map(models.slice(0, warm).map((model) => [model, 0]))
  let waiting: readonly Waiting[] = []
  let loading: string | null = null
  let leaving: string | null = null

  const use = (model: string, change: number) => {
    const users = (loaded.get(model) ?? 0) + change
    loaded.delete(model)
    loaded.set(model, users)
  }
  const admit = (model: string) => {
    const [come, stay] = [waiting.filter((one) => one.model === model), waiting.filter((one) => one.model !== model)]
    waiting = stay
    for (const { go } of come) {
      use(model, 1)
      go()
    }
  }
  const load = async (model: string) => {
    loading = model
    await Bun.sleep((loadS * 1_000) / speed)
    loading = null
    loaded.set(model, 0)
    admit(model)
    next()
  }
  const next = () => {
    const [first] = waiting
    if (first === undefined || loading !== null) return
    if (loaded.size < holds) return void load(first.model)
    leaving ??= [...loaded.keys()][0] ?? null
    if (leaving === null || loaded.get(leaving) !== 0) return
    loaded.delete(leaving)
    leaving = null
    void load(first.model)
  }

  return {
    models,
    status: (model) => (loaded.has(model) ? 'loaded' : loading === model ? 'loading' : 'unloaded'),
    enter: (model) => {
      if (loaded.has(model) && leaving !== model) {
        use(model, 1)
        return Promise.resolve()
      }
      return new Promise((go) => {
        waiting = [...waiting, { model, go }]
        next()
      })
    },
    leave: (model) => {
      use(model, -1)
      next()
    },
  }
}
