import { join } from 'node:path'
import type { ProcessWatch, WatchedChild } from './process-watch.ts'

/** One agent, beside one model server. */
export interface AgentAsked {
  readonly id: number
  readonly gatewayUrl: string
  readonly token: string
  readonly runtimeUrl: string
  readonly apiKey: string
  readonly dataDir: string
}

export type AgentStarted =
  | { readonly id: number; readonly nodeId: string; readonly url: string }
  | { readonly id: number; readonly fault: string }

type Running = Extract<AgentStarted, { nodeId: string }>

/** Agents as they are shipped, in a process of their own that is watched like the gateway. */
export class AgentHost {
  private child: WatchedChild | null = null
  /** How many agents were started. */
  asked = 0
  private readonly waiting = new Map<number, (started: AgentStarted) => void>()

  constructor(private readonly watch: ProcessWatch) {}

  async start(given: Omit<AgentAsked, 'id' | 'dataDir'>): Promise<Running> {
    this.child ??= this.watch.spawn(join(import.meta.dir, 'agents-main.ts'), {}, (message) => {
      const started = message as AgentStarted
      this.waiting.get(started.id)?.(started)
    })
    const id = ++this.asked
    const answer = new Promise<AgentStarted>((resolve) => void this.waiting.set(id, resolve))
    this.child.send({ ...given, id, dataDir: join(this.watch.folder, `agent-${id}`) } satisfies AgentAsked)
    const started = await answer
    if ('fault' in started) throw new Error(`the agent does not start: ${started.fault}`)
    return started
  }
}
