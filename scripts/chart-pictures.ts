import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { drawCharts, type KeptLayouts, keptLayoutsFile, layOutCharts } from '../src/actors/console/statecharts.ts'

/**
 * Lays out the statecharts of the machines that run, for the console, and draws them for `docs/architecture.md`. Usage:
 * `node scripts/bun.mjs scripts/chart-pictures.ts`. A test compares.
 */
export const chartFolder = resolve(import.meta.dir, '..', 'docs', 'images', 'charts')

/** By file name, from layouts that are made anew. */
export async function chartPictures(layouts: KeptLayouts): Promise<ReadonlyMap<string, string>> {
  const drawn = await drawCharts(layouts)
  return new Map(drawn.map(({ graph, standaloneSvg }) => [`${graph.id}.svg`, `${standaloneSvg}\n`]))
}

/** As the file has it. */
export const layoutsText = (layouts: KeptLayouts) => `${JSON.stringify(layouts)}\n`

if (import.meta.main) {
  const layouts = await layOutCharts({})
  writeFileSync(keptLayoutsFile, layoutsText(layouts))
  mkdirSync(chartFolder, { recursive: true })
  for (const [name, svg] of await chartPictures(layouts)) writeFileSync(join(chartFolder, name), svg)
}
