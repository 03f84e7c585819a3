import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chartFolder, chartPictures } from '../../scripts/chart-pictures.ts'

const remedy = 'node scripts/bun.mjs scripts/chart-pictures.ts'
const architecture = readFileSync(join(import.meta.dir, '..', '..', 'docs', 'architecture.md'), 'utf8')

test('the pictures of the statecharts in the documents are those of the machines', async () => {
  const drawn = await chartPictures()
  expect(readdirSync(chartFolder).toSorted()).toEqual([...drawn.keys()].toSorted())
  for (const [name, svg] of drawn) {
    const current = readFileSync(join(chartFolder, name), 'utf8') === svg
    expect({ name, current, remedy }).toEqual({ name, current: true, remedy })
    expect(architecture).toContain(`](images/charts/${name})`)
  }
}, 60_000)
