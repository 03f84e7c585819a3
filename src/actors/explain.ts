import type { ProblemCode } from '../errors.ts'
import { type ExplainedRoute, explainPlacement } from '../machines/rules/explain.ts'
import type { ChatCommand } from './chat-command.ts'
import type { Decision } from './dispatch.ts'

/** Why a request went where it went: one entry per time a route was chosen or none was found. */
export interface Explanation {
  readonly requestId: string
  readonly model: string
  readonly customerId: string
  readonly tries: readonly {
    readonly atMs: number
    readonly result: 'placed' | 'saturated' | 'refused'
    readonly code: ProblemCode | null
    readonly routes: readonly ExplainedRoute[]
  }[]
}

export interface DecisionLog {
  record(command: ChatCommand, decision: Decision): void
  /** null: never seen, or no longer among the last `requestsMax`. */
  explain(requestId: string): Explanation | null
}

/** Requests kept (decisions §23). A decision shares its table with its neighbours, so an entry is small. */
const requestsMax = 10_000
/** A request that waits in a queue decides again and again. */
const triesMax = 8

interface Entry {
  readonly model: string
  readonly customerId: string
  readonly decisions: Decision[]
}

/** Keeps what was decided; the reasons are worked out only when somebody asks, with the loads of that moment. */
export function createDecisionLog(): DecisionLog {
  const entries = new Map<string, Entry>()
  // A ring of the ids, because a Map that is emptied from its front walks over all it has lost to find its first
  // (27 µs a request, measured).
  const ring: string[] = []
  let next = 0
  return {
    record: (command, decision) => {
      const known = entries.get(command.requestId)
      if (known !== undefined) {
        if (known.decisions.length < triesMax) known.decisions.push(decision)
        return
      }
      const { body, access } = command
      entries.set(command.requestId, { model: body.model, customerId: access.customerId, decisions: [decision] })
      const oldest = ring[next]
      if (oldest !== undefined) entries.delete(oldest)
      ring[next] = command.requestId
      next = (next + 1) % requestsMax
    },
    explain: (requestId) => {
      const entry = entries.get(requestId)
      if (entry === undefined) return null
      const { model, customerId } = entry
      return { requestId, model, customerId, tries: entry.decisions.map(explained) }
    },
  }
}

function explained({ table, request, placement }: Decision): Explanation['tries'][number] {
  return {
    atMs: request.nowMs,
    result: placement.kind,
    code: placement.kind === 'refused' ? placement.code : null,
    routes: explainPlacement(table, request, placement),
  }
}
