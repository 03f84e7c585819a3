import type { RuntimeReport } from '../../polling/node-watch.ts'

/** The chart of the model servers, which run on the nodes. */
const machine = 'model-server'

/** Hears that the chart with this id is in this state now; null: it is gone. */
export type Reported = (machine: string, id: string, state: string | null) => void

/** What agents say of their model servers, shown like the gateway's own charts (§30). Ids are node and model. */
export class ServerStates {
  private readonly byNode = new Map<string, ReadonlySet<string>>()

  constructor(private readonly reported: Reported) {}

  /** An agent has answered. */
  onReports(nodeId: string, reports: readonly RuntimeReport[]): void {
    const before = this.byNode.get(nodeId)
    const now = new Set<string>()
    for (const { id, serverState } of reports.flatMap(({ status }) => status.models)) {
      if (serverState === undefined) continue
      const name = `${nodeId}/${id}`
      now.add(name)
      this.reported(machine, name, serverState)
    }
    for (const name of before ?? []) if (!now.has(name)) this.reported(machine, name, null)
    if (now.size > 0) this.byNode.set(nodeId, now)
    else this.byNode.delete(nodeId)
  }

  /** Only these nodes are left. */
  keep(nodes: { has(nodeId: string): boolean }): void {
    for (const nodeId of [...this.byNode.keys()]) if (!nodes.has(nodeId)) this.onReports(nodeId, [])
  }
}
