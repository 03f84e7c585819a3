import { embeddedFile, programFile } from '../../host/program-files.ts'
import { type ChartGraph, chartGraph } from '../../machines/charts/chart-graph.ts'
import { charts } from '../../machines/charts/registry.ts'
import { type Picture, statechartSvg } from './statechart-svg.ts'

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

/** By the ids of the machines. */
export type Pictures = Readonly<Record<string, Picture>>

/** Written by `scripts/chart-pictures.ts`. */
export const picturesFile = programFile('src/actors/console/statechart-pictures.json')

/** Draws the charts from this checkout. */
export async function drawCharts(pictures?: Pictures): Promise<readonly DrawnChart[]> {
  const made = pictures ?? ((await Bun.file(picturesFile).json()) as Pictures)
  return charts.map(({ machine, title, about, recorded = false }) => {
    const graph = chartGraph(machine)
    const picture = made[machine.id]
    if (picture === undefined) throw new Error(`no picture of ${machine.id}: run scripts/chart-pictures.ts`)
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
