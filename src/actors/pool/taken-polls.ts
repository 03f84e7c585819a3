import type { PollResult } from '../../polling/node-watch.ts'
import { nodeAnswered } from '../sleep/sleep-changes.ts'
import { takeAgentFacts } from './agent-facts.ts'
import { introduce } from './introduce.ts'
import type { Members } from './members.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import type { RouterOptions } from './router-options.ts'

type Answered = Extract<PollResult, { kind: 'answered' }>
type Failed = Extract<PollResult, { kind: 'failed' }>

/** What follows in the pool from a poll. */
export interface PollListener {
  /** The node has told what it has. `emptied`: profiles whose models have left the memory. */
  reported(node: PoolNode, emptied: ReturnType<PoolNode['onReports']>['emptied'], at: number): void
  /** A number that each publication of the table raises. */
  version(): number
  /** Routes look different now. */
  changed(): void
  /** The node has answered, or failed to, and all of it is taken over. */
  probed(node: PoolNode): void
}

/** Takes the results of polls over into the nodes and their charts. */
export class TakenPolls {
  constructor(
    private readonly options: Pick<RouterOptions, 'db' | 'log' | 'sleepBook' | 'serverStates'>,
    private readonly members: Pick<Members, 'nodes' | 'introduced'>,
    private readonly listener: PollListener,
  ) {}

  /** `askedMs`: `performance.now()` when the poll went out. `isLate`: another process polled. */
  async take(node: PoolNode, result: PollResult, askedMs: number, isLate = false): Promise<void> {
    const { db, log } = this.options
    const fresh = result.kind === 'answered' ? await introduce(db, log, node, result.reports) : []
    if (this.members.nodes.get(node.row.nodeId) !== node) return
    this.members.introduced(fresh)
    if (node.polls.takes(askedMs, isLate)) {
      const lateAskedMs = isLate ? askedMs : null
      if (result.kind === 'answered') this.answered(node, result, lateAskedMs)
      else if (result.code !== 'exhausted') this.failed(node, result)
    }
    this.listener.probed(node)
  }

  private answered(node: PoolNode, { reports, power, agent }: Answered, lateAskedMs: number | null): void {
    const at = Date.now()
    const { sleepBook, serverStates } = this.options
    const { rest } = node
    if (agent !== undefined) {
      takeAgentFacts(node, agent, this.options)
      serverStates?.onReports(node.row.nodeId, reports)
    }
    node.power = power ?? null
    if (power !== undefined) sleepBook?.onPower(node.row, power)
    const { changed, modelsReady, emptied } = node.onReports(reports, at, lateAskedMs)
    this.listener.reported(node, emptied, at)
    node.forgetOldError(at)
    const version = this.listener.version()
    const wanted = node.wake.startedAtMs !== null
    const told = { modelsReady, at, power: power?.state ?? null, wanted }
    node.actor.send({
      type: 'poll.answered',
      ...told,
      ...(lateAskedMs === null ? {} : { askedMs: at - (performance.now() - lateAskedMs) }),
    })
    nodeAnswered(node, at, sleepBook)
    if ((changed || node.rest !== rest) && this.listener.version() === version) this.listener.changed()
  }

  private failed(node: PoolNode, { code }: Failed): void {
    const at = Date.now()
    // Silence of a sleeping node is no error.
    if (!node.awaitsFirstDial && node.state !== 'asleep') node.failedWith(code, at)
    node.actor.send({ type: code === 'refused' ? 'connection.refused' : 'poll.failed', at })
  }
}
