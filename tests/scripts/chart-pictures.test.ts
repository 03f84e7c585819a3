import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chartFolder, chartPictures, layoutsText } from '../../scripts/chart-pictures.ts'
import { drawCharts, keptLayoutsFile, layOutCharts } from '../../src/actors/console/statecharts.ts'

const remedy = 'node scripts/bun.mjs scripts/chart-pictures.ts'
const architecture = readFileSync(join(import.meta.dir, '..', '..', 'docs', 'architecture.md'), 'utf8')

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
})

test('the first opening draws from kept layouts; one that is missing is made', async () => {
  const whole = await drawCharts()
  // Were a layout made anew, its picture would be as wide as ever.
  const wider = JSON.parse(readFileSync(keptLayoutsFile, 'utf8'))
  for (const id of Object.keys(wider)) wider[id].picture.width += 1_000
  const drawn = await drawCharts(wider)
  for (const [at, { title, svg }] of drawn.entries()) expect([title, svg === whole[at]?.svg]).toEqual([title, false])
  const { router: _, ...others } = JSON.parse(readFileSync(keptLayoutsFile, 'utf8'))
  expect(await drawCharts(others)).toEqual(whole)
})
