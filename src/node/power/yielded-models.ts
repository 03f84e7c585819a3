import { Alarm, type Clock, systemClock } from '../../clock.ts'
import type { LocalRuntime } from '../runtimes/local-runtime.ts'

/** Between two looks whether a server that is to let its models go has ended its work, ms. */
const lookMs = 1_000

/** What of a model server matters here. */
export interface YieldingServer extends Pick<LocalRuntime, 'inFlight' | 'tell'> {
  readonly models: readonly { readonly id: string; readonly loaded?: boolean | null }[]
}

/** Models that leave memory while the computer yields: at once where nothing runs, the others when their work has ended. */
export class YieldedModels {
  private leaving: readonly string[] = []
  private readonly next: Alarm

  constructor(
    private readonly servers: () => readonly YieldingServer[],
    clock: Clock = systemClock,
  ) {
    this.next = new Alarm(() => this.look(), clock, false)
  }

  /** Another reason changes nothing for a model that still works: there is one look a second whatever comes. */
  unload(): void {
    this.leaving = this.servers().flatMap(({ models }) =>
      models.flatMap(({ id, loaded }) => (loaded === true ? [id] : [])),
    )
    this.look()
  }

  /** The computer works for others again, or the agent ends: models that still work stay. */
  keep(): void {
    this.leaving = []
    this.next.clear()
  }

  private look(): void {
    this.leaving = this.leaving.filter((id) => {
      const server = this.servers().find(({ models }) => models.some((model) => model.id === id))
      if (server === undefined) return false
      if (server.inFlight > 0) return true
      server.tell?.('unload', id)
      return false
    })
    if (this.leaving.length > 0) this.next.set(lookMs)
    else this.next.clear()
  }
}
