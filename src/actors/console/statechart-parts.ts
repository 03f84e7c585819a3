import type { ElkExtendedEdge, ElkLabel, ElkNode } from 'elkjs/lib/elk-api'
import type { ChartGraph, ChartState, ChartTransition } from '../../machines/charts/chart-graph.ts'

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
const separator = '\n'
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

const widthOf = (texts: readonly string[]) => Math.max(0, ...texts.map((text) => text.length * sizes.character))

/**
 * elkjs applies these options to each level separately. The layout goes depth first from the initial state, because
 * model order breaks on arrows that cross levels (seen in 0.12.1).
 */
const options = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.json.edgeCoords': 'ROOT',
  'elk.edgeLabels.inline': 'false',
  'elk.layered.edgeLabels.sideSelection': 'SMART_DOWN',
  'elk.spacing.edgeLabel': '4',
  'elk.spacing.nodeNode': '28',
  'elk.spacing.edgeEdge': '14',
  'elk.spacing.edgeNode': '18',
  'elk.layered.spacing.nodeNodeBetweenLayers': '34',
  'elk.layered.spacing.edgeNodeBetweenLayers': '16',
  'elk.layered.spacing.edgeEdgeBetweenLayers': '12',
  'elk.layered.cycleBreaking.strategy': 'DEPTH_FIRST',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
} as const

function stateNode(graph: ChartGraph, state: ChartState): ElkNode {
  const lines = internalsOf(graph, state.path).map(internalText)
  const textWidth = Math.max(widthOf([state.name]) * 1.1 + sizes.badge, widthOf(lines)) + 2 * sizes.padding
  const width = Math.max(sizes.stateWidthMin, Math.ceil(textWidth))
  const head = sizes.headHeight + lines.length * sizes.line + (lines.length > 0 ? 6 : 0)
  const id = layoutId(state.path)
  if (state.kind !== 'compound') return { id, width, height: Math.max(sizes.stateHeight, head) }
  const children = graph.states.filter(({ parent }) => parent === state.path)
  return {
    id,
    children: [
      { id: dotId(state.path), width: sizes.dot, height: sizes.dot },
      ...children.map((child) => stateNode(graph, child)),
    ],
    layoutOptions: {
      ...options,
      'elk.padding': `[top=${head + sizes.padding},left=${sizes.padding},bottom=${sizes.padding},right=${sizes.padding}]`,
      'elk.nodeSize.constraints': 'MINIMUM_SIZE',
      'elk.nodeSize.minimum': `(${width},${head})`,
    },
  }
}

const label = (transitions: readonly ChartTransition[]): ElkLabel => ({
  text: transitions.map(transitionText).join(separator),
  width: Math.ceil(widthOf(transitions.map(transitionText))) + 8,
  height: transitions.length * sizes.line + 2,
})

/** The request to elkjs: nested nodes for the states, arrows with their labels, and a dot for each initial state. */
export function layoutRequest(graph: ChartGraph): ElkNode {
  const root = graph.states.find(({ path }) => path === '')
  if (root === undefined) throw new Error('a chart without a root')
  const arrows: ElkExtendedEdge[] = arrowsOf(graph).map(({ id, source, target, transitions }) => ({
    id,
    sources: [layoutId(source)],
    targets: [layoutId(target)],
    labels: [label(transitions)],
  }))
  const initials: ElkExtendedEdge[] = graph.states
    .filter(({ initial }) => initial)
    .map(({ path, parent }) => ({
      id: `enter:${path}`,
      sources: [dotId(parent ?? '')],
      targets: [layoutId(path)],
    }))
  return {
    id: 'picture',
    layoutOptions: { ...options, 'elk.padding': '[top=2,left=2,bottom=2,right=2]' },
    children: [stateNode(graph, root)],
    edges: [...arrows, ...initials],
  }
}
