import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chartFolder, chartPictures, layoutsText } from '../../scripts/chart-pictures.ts'
import { drawCharts, keptLayoutsFile, layOutCharts } from '../../src/actors/console/statecharts.ts'

const remedy = 'node scripts/bun.mjs scripts/chart-pictures.ts'
const architecture = readFileSync(join(import.meta.dir, '..', '..', 'docs', 'architecture.md'), 'utf8')
/** For all charts; a layout alone takes longer. */
const openingMsMax = 1_000

test('the kept layouts and the pictures of the documents are those of the machines', async () => {
  const layouts = await layOutCharts({})
  const kept = readFileSync(keptLayoutsFile, 'utf8') === layoutsText(layouts)
  expect({ kept, remedy }).toEqual({ kept: true, remedy })
  const drawn = await chartPictures(layouts)
  expect(readdirSync(chartFolder).toSorted()).toEqual([...drawn.keys()].toSorted())
  for (const [name, svg] of drawn) {
    const current = readFileSync(join(chartFolder, name), 'utf8') === svg
    expect({ name, current, remedy }).toEqual({ name, current: true, remedy })
    expect(architecture).toContain(`](images/charts/${name})`)
  }
}, 60_000)

test('the first opening draws from kept layouts within a second; one that is missing is made', async () => {
  const began = performance.now()
  const whole = await drawCharts()
  expect(performance.now() - began).toBeLessThan(openingMsMax)
  const { router: _, ...others } = JSON.parse(readFileSync(keptLayoutsFile, 'utf8'))
  expect(await drawCharts(others)).toEqual(whole)
}, 60_000)
