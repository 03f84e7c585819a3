import type { AnyStateMachine, AnyStateNode } from 'xstate'
import { toDirectedGraph } from 'xstate/graph'

/** A state of a chart, as a picture shows it. */
export interface ChartState {
  /** Dotted, as the inspector names it: `stale.silent`; empty for the chart itself. */
  readonly path: string
  readonly name: string
  readonly kind: 'atomic' | 'compound' | 'final'
  /** Path of the state around it; null for the chart itself. */
  readonly parent: string | null
  /** Entered when the state around it is. */
  readonly initial: boolean
}

export interface ChartTransition {
  readonly source: string
  readonly target: string
  /** For readers: `poll.answered`, `after silence`, `admit done`, `always`. */
  readonly event: string
  /** The name of its condition; `else` after a guarded one of the same event. */
  readonly guard: string | null
  /** Leaves the state and enters it again, though it ends where it began. */
  readonly reenter: boolean
}

export interface ChartGraph {
  readonly id: string
  readonly states: readonly ChartState[]
  readonly transitions: readonly ChartTransition[]
}

type DirectedGraph = ReturnType<typeof toDirectedGraph>
type Definition = AnyStateNode['transitions'] extends Map<string, (infer T)[]> ? T : never

const pathOf = (node: AnyStateNode): string => node.path.join('.')

/** XState's own names of events say more than a reader needs. */
export function eventName(type: string): string {
  const settled = /^xstate\.(done|error)\.actor\.(.+)$/.exec(type)
  if (settled) return `${settled[2]} ${settled[1] === 'done' ? 'done' : 'failed'}`
  const [, delay] = /^xstate\.after\.([^.]+)\./.exec(type) ?? []
  if (delay !== undefined) return `after ${delay}`
  if (type.startsWith('xstate.done.state.')) return 'done'
  return type === '' ? 'always' : type
}

function guardName(guard: unknown, after: boolean): string | null {
  if (guard === undefined) return after ? 'else' : null
  if (typeof guard === 'string') return guard
  const { type, params } = guard as { type?: unknown; params?: unknown }
  if (typeof type !== 'string') throw new Error('a condition without a name: its chart could not say it')
  const values = typeof params === 'object' && params !== null ? Object.values(params) : []
  return values.length === 0 ? type : `${type} ${values.join(' ')}`
}

/** One event's transitions of one state, in the order in which they are tried. */
function transitionsOf(source: AnyStateNode, event: string, tried: readonly Definition[]): ChartTransition[] {
  return tried.flatMap((transition, at) => {
    const guard = guardName(transition.guard, at > 0)
    const { reenter } = transition
    const targets = transition.target?.map(pathOf) ?? [pathOf(source)]
    return targets.map((target) => ({ source: pathOf(source), target, event: eventName(event), guard, reenter }))
  })
}

function* nodesOf(graph: DirectedGraph): Generator<AnyStateNode> {
  yield graph.stateNode
  for (const child of graph.children) yield* nodesOf(child)
}

/**
 * The picture's contents, from the definition of the machine itself: a picture can never drift from the code.
 * `toDirectedGraph` gives the states; it leaves out eventless transitions (seen in XState 5.33), so all transitions are
 * read from the states.
 */
export function chartGraph(machine: AnyStateMachine): ChartGraph {
  const nodes = [...nodesOf(toDirectedGraph(machine))]
  const states = nodes.map((node): ChartState => {
    const kind = node.type === 'final' ? 'final' : Object.keys(node.states).length > 0 ? 'compound' : 'atomic'
    const { parent } = node
    const initial = parent !== undefined && parent.initial.target?.includes(node) === true
    const name = parent === undefined ? machine.id : node.key
    return { path: pathOf(node), name, kind, parent: parent === undefined ? null : pathOf(parent), initial }
  })
  const transitions = nodes.flatMap((node) => [
    ...[...node.transitions].flatMap(([event, tried]) => transitionsOf(node, event, tried)),
    ...transitionsOf(node, '', node.always ?? []),
  ])
  return { id: machine.id, states, transitions }
}
