import type { ChartGraph, ChartState, ChartTransition } from '../../machines/charts/chart-graph.ts'
import { arrowsOf, dotId, internalsOf, internalText, layoutId, sizes, transitionText } from './statechart-parts.ts'

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escaped = (text: string) => text.replaceAll(/[&<>"]/g, (found) => escapes[found] ?? found)
const rounded = (value: number) => String(Math.round(value * 10) / 10)

function attributes(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${typeof value === 'number' ? rounded(value) : escaped(value)}"`)
    .join('')
}

type Point = { readonly x: number; readonly y: number }

interface PictureEdge {
  readonly id: string
  readonly labels?: readonly { readonly x?: number; readonly y?: number }[]
  readonly sections?: readonly {
    readonly startPoint: Point
    readonly endPoint: Point
    readonly bendPoints?: readonly Point[]
  }[]
}

/** Where everything of a chart stands, px, as elkjs writes it (`scripts/chart-layout.ts`). */
export interface Picture {
  readonly id: string
  readonly x?: number
  readonly y?: number
  readonly width?: number
  readonly height?: number
  readonly children?: readonly Picture[]
  readonly edges?: readonly PictureEdge[]
}

interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** elkjs gives the position of each node relative to its parent. */
function boxesOf(node: Picture, x = 0, y = 0, boxes = new Map<string, Box>()): ReadonlyMap<string, Box> {
  const box = { x: x + (node.x ?? 0), y: y + (node.y ?? 0), width: node.width ?? 0, height: node.height ?? 0 }
  boxes.set(node.id, box)
  for (const child of node.children ?? []) boxesOf(child, box.x, box.y, boxes)
  return boxes
}

const transitionData = ({ source, target, event, guard }: ChartTransition) => ({
  'data-source': source,
  'data-target': target,
  'data-event': event,
  ...(guard === null ? {} : { 'data-guard': guard }),
})

function drawState(graph: ChartGraph, state: ChartState, { x, y, width, height }: Box): string {
  const lines = internalsOf(graph, state.path)
  const inset = 3
  const inner = { x: x + inset, y: y + inset, width: width - 2 * inset, height: height - 2 * inset, rx: 6 }
  const badge = { 'data-count': state.path, x: x + width - sizes.padding, y: y + 21, 'text-anchor': 'end' }
  return [
    `<g class="state ${state.kind}"${attributes({ 'data-state': state.path })}>`,
    `<rect${attributes({ x, y, width, height, rx: 8 })}/>`,
    state.kind === 'final' ? `<rect class="end"${attributes(inner)}/>` : '',
    `<text class="name"${attributes({ x: x + sizes.padding, y: y + 21 })}>${escaped(state.name)}</text>`,
    `<text class="count"${attributes(badge)}></text>`,
    ...lines.map((line, at) => {
      const place = { x: x + sizes.padding, y: y + sizes.headHeight + 11 + at * sizes.line }
      return `<text class="internal"${attributes({ ...transitionData(line), ...place })}>${escaped(internalText(line))}</text>`
    }),
    '</g>',
  ].join('')
}

const cornerMax = 7

/** A polyline with round corners. */
function roundedPath(points: readonly Point[]): string {
  const [first, ...rest] = points
  if (first === undefined) return ''
  const parts = [`M${rounded(first.x)} ${rounded(first.y)}`]
  for (const [at, point] of rest.entries()) {
    const before = points[at] ?? point
    const after = rest[at + 1]
    if (after === undefined) {
      parts.push(`L${rounded(point.x)} ${rounded(point.y)}`)
      continue
    }
    const enter = toward(point, before)
    const leave = toward(point, after)
    parts.push(`L${rounded(enter.x)} ${rounded(enter.y)}`)
    parts.push(`Q${rounded(point.x)} ${rounded(point.y)} ${rounded(leave.x)} ${rounded(leave.y)}`)
  }
  return parts.join('')
}

function toward(from: Point, to: Point): Point {
  const distance = Math.hypot(to.x - from.x, to.y - from.y)
  if (distance === 0) return from
  const step = Math.min(cornerMax, distance / 2) / distance
  return { x: from.x + (to.x - from.x) * step, y: from.y + (to.y - from.y) * step }
}

function pathOf(edge: PictureEdge): string {
  return (edge.sections ?? [])
    .map(({ startPoint, bendPoints = [], endPoint }) => roundedPath([startPoint, ...bendPoints, endPoint]))
    .join('')
}

const arrowHead =
  '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'

function drawArrows(graph: ChartGraph, edges: ReadonlyMap<string, PictureEdge>): string[] {
  return arrowsOf(graph).map(({ id, source, target, transitions }) => {
    const edge = edges.get(id)
    if (edge === undefined) throw new Error(`the layout lost ${source} → ${target}`)
    const [label] = edge.labels ?? []
    const texts = transitions.map((transition, line) => {
      const place = { x: (label?.x ?? 0) + 4, y: (label?.y ?? 0) + 12 + line * sizes.line }
      return `<text${attributes({ ...transitionData(transition), ...place })}>${escaped(transitionText(transition))}</text>`
    })
    const path = `<path${attributes({ d: pathOf(edge), 'marker-end': 'url(#arrow)' })}/>`
    return `<g class="arrow"${attributes({ 'data-from': source, 'data-to': target })}>${path}${texts.join('')}</g>`
  })
}

function drawInitials(graph: ChartGraph, boxes: ReadonlyMap<string, Box>, edges: ReadonlyMap<string, PictureEdge>) {
  return graph.states
    .filter(({ initial }) => initial)
    .map(({ path, parent }) => {
      const dot = boxes.get(dotId(parent ?? ''))
      const edge = edges.get(`enter:${path}`)
      if (dot === undefined || edge === undefined) throw new Error(`the layout lost the entry of ${path}`)
      const r = sizes.dot / 2
      const circle = `<circle${attributes({ cx: dot.x + r, cy: dot.y + r, r })}/>`
      return `<g class="enter">${circle}<path${attributes({ d: pathOf(edge), 'marker-end': 'url(#arrow)' })}/></g>`
    })
}

/** Colours for a picture that is shown outside of the console. */
const ownStyle = `<style>
.statechart{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1c2530}
.statechart rect{fill:#fff;stroke:#5b6b7f}.statechart .compound>rect{fill:#f3f6f9}.statechart .end{fill:none}
.statechart .name{font-weight:600;font-size:12px}.statechart .internal{fill:#4a5868}
.statechart .arrow path,.statechart .enter path{fill:none;stroke:#5b6b7f}.statechart .head{fill:#5b6b7f;stroke:none}
@media(prefers-color-scheme:dark){.statechart{fill:#e4eaf0}.statechart rect{fill:#1a222b;stroke:#8496a9}
.statechart .compound>rect{fill:#131a21}.statechart .internal{fill:#a9b7c6}
.statechart .arrow path,.statechart .enter path{stroke:#8496a9}.statechart .head{fill:#8496a9}}
</style>`

export interface Drawing {
  readonly title: string
  /** Adds colours, for documents. The console has its own. */
  readonly standalone: boolean
}

/** Every state carries `data-state`, every transition `data-source`, `data-target`, `data-event` and `data-guard`. */
export function statechartSvg(graph: ChartGraph, picture: Picture, { title, standalone }: Drawing): string {
  const boxes = boxesOf(picture)
  const edges = new Map((picture.edges ?? []).map((edge) => [edge.id, edge]))
  const states = graph.states.map((state) => {
    const box = boxes.get(layoutId(state.path))
    if (box === undefined) throw new Error(`the layout lost ${state.path}`)
    return drawState(graph, state, box)
  })
  const { width = 0, height = 0 } = picture
  const size = {
    viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
    width: Math.ceil(width),
    height: Math.ceil(height),
  }
  const root = { xmlns: 'http://www.w3.org/2000/svg', class: 'statechart', role: 'img', 'aria-label': title, ...size }
  return [
    `<svg${attributes({ ...root, 'data-machine': graph.id })}>`,
    standalone ? ownStyle : '',
    arrowHead,
    ...states,
    ...drawArrows(graph, edges),
    ...drawInitials(graph, boxes, edges),
    '</svg>',
  ].join('')
}
