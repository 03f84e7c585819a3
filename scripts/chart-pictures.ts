import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { drawCharts } from '../src/actors/console/statecharts.ts'

/**
 * Draws the statecharts of `docs/architecture.md` from the machines that run. Usage:
 * `node scripts/bun.mjs scripts/chart-pictures.ts`. A test compares.
 */
export const chartFolder = resolve(import.meta.dir, '..', 'docs', 'images', 'charts')

/** By file name. */
export async function chartPictures(): Promise<ReadonlyMap<string, string>> {
  const drawn = await drawCharts()
  return new Map(drawn.map(({ graph, standaloneSvg }) => [`${graph.id}.svg`, `${standaloneSvg}\n`]))
}

if (import.meta.main) {
  mkdirSync(chartFolder, { recursive: true })
  for (const [name, svg] of await chartPictures()) writeFileSync(join(chartFolder, name), svg)
}
