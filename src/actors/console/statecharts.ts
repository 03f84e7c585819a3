import { createHash } from 'node:crypto'
import type { ElkNode } from 'elkjs/lib/elk-api'
import { descriptors } from '../../host/descriptors.ts'
import { embeddedFile, programFile } from '../../host/program-files.ts'
import { type ChartGraph, chartGraph } from '../../machines/charts/chart-graph.ts'
import { charts } from '../../machines/charts/registry.ts'
import { layoutRequest } from './statechart-layout.ts'
import { statechartSvg } from './statechart-svg.ts'

export interface DrawnChart {
  readonly title: string
  readonly about: string
  readonly recorded: boolean
  readonly graph: ChartGraph
  /** For the console, which adds the colours. */
  readonly svg: string
  /** For documents. */
  readonly standaloneSvg: string
}

export interface Statecharts {
  /** All charts of the gateway. They are drawn at the first request and then kept. */
  all(): Promise<readonly DrawnChart[]>
}

/** The file in a built program, which contains the drawn charts as JSON. */
export const builtCharts = 'statecharts.json'

/** One layout takes about 100 ms in the worker (measured). */
const layoutMaxMs = 20_000
/** A thread that gets no descriptor ends the process (seen on Bun 1.4.5). */
const workerDescriptors = 8

type Answer = { readonly picture: ElkNode } | { readonly failure: string }

function layout(worker: Worker, request: ElkNode): Promise<ElkNode> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('the layout of a statechart takes too long')), layoutMaxMs)
    const finish = (answer: Answer) => {
      clearTimeout(late)
      if ('picture' in answer) resolve(answer.picture)
      else reject(new Error(answer.failure))
    }
    worker.onmessage = ({ data }: MessageEvent<Answer>) => finish(data)
    worker.onerror = ({ message }) => finish({ failure: message })
    worker.postMessage(request)
  })
}

/** A layout that was made before, and of what. */
export interface KeptLayout {
  /** SHA-256 of the request to elkjs, hexadecimal. */
  readonly of: string
  readonly picture: ElkNode
}
export type KeptLayouts = Readonly<Record<string, KeptLayout>>

/** Written by `scripts/chart-pictures.ts`, so that the first opening waits for no layout. */
export const keptLayoutsFile = programFile('src/actors/console/statechart-layouts.json')

/** elkjs repeats its options and its own marks, which are not drawn. */
const drawnMembers: ReadonlySet<string> = new Set(
  'id x y width height children edges sections startPoint endPoint bendPoints labels'.split(' '),
)
const withoutOptions = (picture: ElkNode) =>
  JSON.parse(
    JSON.stringify(picture, (key, value) =>
      key === '' || /^\d+$/.test(key) || drawnMembers.has(key) ? value : undefined,
    ),
  ) as ElkNode

/** Lays out what is not among `kept`. It takes a second or two in its own thread, which starts when it is needed. */
export async function layOutCharts(kept: KeptLayouts): Promise<KeptLayouts> {
  let worker: Worker | null = null
  const start = () => {
    descriptors.lend(workerDescriptors)
    return new Worker(new URL('./statechart-layout-worker.ts', import.meta.url).href)
  }
  const layouts: Record<string, KeptLayout> = {}
  try {
    for (const { machine } of charts) {
      const request = layoutRequest(chartGraph(machine))
      const of = createHash('sha256').update(JSON.stringify(request)).digest('hex')
      const known = kept[machine.id]
      if (known?.of === of) layouts[machine.id] = known
      else {
        worker ??= start()
        layouts[machine.id] = { of, picture: withoutOptions(await layout(worker, request)) }
      }
    }
    return layouts
  } finally {
    worker?.terminate()
  }
}

/** Draws the charts from this checkout. `kept`: layouts that were made before. */
export async function drawCharts(kept?: KeptLayouts): Promise<readonly DrawnChart[]> {
  const layouts = await layOutCharts(kept ?? ((await Bun.file(keptLayoutsFile).json()) as KeptLayouts))
  return charts.map(({ machine, title, about, recorded = false }) => {
    const graph = chartGraph(machine)
    const picture = layouts[machine.id]?.picture ?? { id: '' }
    const draw = (standalone: boolean) => statechartSvg(graph, picture, { title: `${title}: ${about}`, standalone })
    return { title, about, recorded, graph, svg: draw(false), standaloneSvg: draw(true) }
  })
}

async function allCharts(): Promise<readonly DrawnChart[]> {
  const built = embeddedFile(builtCharts)
  return built === null ? drawCharts() : ((await Bun.file(built).json()) as readonly DrawnChart[])
}

export function createStatecharts(): Statecharts {
  let drawing: Promise<readonly DrawnChart[]> | null = null
  return {
    all: () => {
      drawing ??= allCharts().catch((error: unknown) => {
        drawing = null
        throw error
      })
      return drawing
    },
  }
}
