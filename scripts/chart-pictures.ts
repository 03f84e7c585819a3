import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { drawCharts, type Pictures, picturesFile } from '../src/actors/console/statecharts.ts'
import { layOutCharts } from './chart-layout.ts'

/**
 * Lays out the statecharts of the machines that run, for the console, and draws them for `docs/architecture.md`. Usage:
 * `node scripts/bun.mjs scripts/chart-pictures.ts`. A test compares.
 */
export const chartFolder = resolve(import.meta.dir, '..', 'docs', 'images', 'charts')

/** The drawings by file name. */
export async function chartPictures(pictures: Pictures): Promise<ReadonlyMap<string, string>> {
  const drawn = await drawCharts(pictures)
  return new Map(drawn.map(({ graph, standaloneSvg }) => [`${graph.id}.svg`, `${standaloneSvg}\n`]))
}

/** As the file has it. */
export const picturesText = (pictures: Pictures) => `${JSON.stringify(pictures)}\n`

if (import.meta.main) {
  const pictures = await layOutCharts()
  writeFileSync(picturesFile, picturesText(pictures))
  mkdirSync(chartFolder, { recursive: true })
  for (const [name, svg] of await chartPictures(pictures)) writeFileSync(join(chartFolder, name), svg)
}
