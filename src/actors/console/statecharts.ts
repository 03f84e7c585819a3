import type { ElkNode } from 'elkjs/lib/elk-api'
import { descriptors } from '../../host/descriptors.ts'
import { embeddedFile } from '../../host/program-files.ts'
import { type ChartGraph, chartGraph } from '../../machines/charts/chart-graph.ts'
import { charts } from '../../machines/charts/registry.ts'
import { layoutRequest } from './statechart-layout.ts'
import { statechartSvg } from './statechart-svg.ts'

export interface DrawnChart {
  readonly title: string
  readonly about: string
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

/** Draws the charts from this checkout. It takes a second or two in its own thread. */
export async function drawCharts(): Promise<readonly DrawnChart[]> {
  descriptors.lend(workerDescriptors)
  const worker = new Worker(new URL('./statechart-layout-worker.ts', import.meta.url).href)
  try {
    const drawn: DrawnChart[] = []
    for (const { machine, title, about } of charts) {
      const graph = chartGraph(machine)
      const picture = await layout(worker, layoutRequest(graph))
      const draw = (standalone: boolean) => statechartSvg(graph, picture, { title: `${title}: ${about}`, standalone })
      drawn.push({ title, about, graph, svg: draw(false), standaloneSvg: draw(true) })
    }
    return drawn
  } finally {
    worker.terminate()
  }
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
