import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { layOutCharts } from '../../scripts/chart-layout.ts'
import { chartFolder, chartPictures, picturesText } from '../../scripts/chart-pictures.ts'
import { picturesFile } from '../../src/actors/console/statecharts.ts'

const remedy = 'node scripts/bun.mjs scripts/chart-pictures.ts'
const architecture = readFileSync(join(import.meta.dir, '..', '..', 'docs', 'architecture.md'), 'utf8')

test('the pictures of the console and of the documents are those of the machines', async () => {
  const pictures = await layOutCharts()
  const kept = readFileSync(picturesFile, 'utf8') === picturesText(pictures)
  expect({ kept, remedy }).toEqual({ kept: true, remedy })
  const drawn = await chartPictures(pictures)
  expect(readdirSync(chartFolder).toSorted()).toEqual([...drawn.keys()].toSorted())
  for (const [name, svg] of drawn) {
    const current = readFileSync(join(chartFolder, name), 'utf8') === svg
    expect({ name, current, remedy }).toEqual({ name, current: true, remedy })
    expect(architecture).toContain(`](images/charts/${name})`)
  }
})
