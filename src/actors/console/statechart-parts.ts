import type { ChartGraph, ChartTransition } from '../../machines/charts/chart-graph.ts'

/** Sizes of the drawing, px. Labels are set in a monospaced face: the server knows their width without a browser. */
export const sizes = {
  character: 6.7,
  line: 15,
  stateHeight: 34,
  stateWidthMin: 96,
  headHeight: 30,
  padding: 14,
  dot: 10,
  /** The space for the number of live instances beside the name of a state. */
  badge: 34,
} as const

const rootId = 'chart'
/** Between the texts of one arrow, and the two states that name it. */
export const separator = '\n'
/** The id of the layout's node. The chart itself has the empty path. */
export const layoutId = (path: string): string => (path === '' ? rootId : `state:${path}`)
export const dotId = (path: string): string => `initial:${path}`

/** True if the transition is listed inside its state, because it leads nowhere else and needs no arrow. */
function isInternal({ source, target, reenter }: ChartTransition): boolean {
  if (source === target) return !reenter
  return source === '' || target.startsWith(`${source}.`)
}

export const transitionText = ({ event, guard }: ChartTransition): string =>
  guard === null ? event : `${event} [${guard}]`

export function internalText(transition: ChartTransition): string {
  const { source, target } = transition
  return source === target ? transitionText(transition) : `${transitionText(transition)} → ${target}`
}

/** Transitions between the same two states share one arrow. */
export interface Arrow {
  readonly id: string
  readonly source: string
  readonly target: string
  readonly transitions: readonly ChartTransition[]
}

export function arrowsOf(graph: ChartGraph): readonly Arrow[] {
  const arrows = new Map<string, ChartTransition[]>()
  for (const transition of graph.transitions.filter((each) => !isInternal(each))) {
    const key = `${transition.source}${separator}${transition.target}`
    arrows.set(key, [...(arrows.get(key) ?? []), transition])
  }
  return [...arrows.values()].map((transitions, at) => {
    const [{ source, target } = { source: '', target: '' }] = transitions
    return { id: `arrow:${at}`, source, target, transitions }
  })
}

export const internalsOf = (graph: ChartGraph, path: string): readonly ChartTransition[] =>
  graph.transitions.filter((transition) => transition.source === path && isInternal(transition))
