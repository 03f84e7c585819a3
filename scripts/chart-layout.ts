import type { ElkExtendedEdge, ElkLabel, ElkNode } from 'elkjs/lib/elk-api'
import {
  arrowsOf,
  dotId,
  internalsOf,
  internalText,
  layoutId,
  separator,
  sizes,
  transitionText,
} from '../src/actors/console/statechart-parts.ts'
import type { Picture } from '../src/actors/console/statechart-svg.ts'
import {
  type ChartGraph,
  type ChartState,
  type ChartTransition,
  chartGraph,
} from '../src/machines/charts/chart-graph.ts'
import { charts } from '../src/machines/charts/registry.ts'

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
function layoutRequest(graph: ChartGraph): ElkNode {
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

/** elkjs repeats its options and its own marks, which are not drawn. */
const drawnMembers: ReadonlySet<string> = new Set(
  'id x y width height children edges sections startPoint endPoint bendPoints labels'.split(' '),
)
const withoutOptions = (picture: ElkNode) =>
  JSON.parse(
    JSON.stringify(picture, (key, value) =>
      key === '' || /^\d+$/.test(key) || drawnMembers.has(key) ? value : undefined,
    ),
  ) as Picture

type Answer = { readonly picture: ElkNode } | { readonly failure: string }

function layout(worker: Worker, request: ElkNode): Promise<ElkNode> {
  const { promise, resolve, reject } = Promise.withResolvers<ElkNode>()
  worker.onmessage = ({ data }: MessageEvent<Answer>) =>
    'picture' in data ? resolve(data.picture) : reject(new Error(data.failure))
  worker.onerror = ({ message }) => reject(new Error(message))
  worker.postMessage(request)
  return promise
}

/** The pictures of all charts by the ids of their machines. It takes a second or two. */
export async function layOutCharts(): Promise<Readonly<Record<string, Picture>>> {
  const worker = new Worker(new URL('./chart-layout-worker.ts', import.meta.url).href)
  try {
    const pictures: Record<string, Picture> = {}
    for (const { machine } of charts)
      pictures[machine.id] = withoutOptions(await layout(worker, layoutRequest(chartGraph(machine))))
    return pictures
  } finally {
    worker.terminate()
  }
}
