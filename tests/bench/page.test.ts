import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { drawingFile, pageFile, pageLinesMax, resultsOf } from '../../bench/page.ts'
import { notebookFile } from '../../bench/results.ts'
import { goals } from '../../bench/table.ts'

const read = (file: string) => readFileSync(file, 'utf8')

test('every number on the page of results and in its drawing is the one that the notebook has', () => {
  const { page, drawing } = resultsOf(read(notebookFile))
  expect({ page: read(pageFile), drawing: read(drawingFile) }).toEqual({ page, drawing })
  for (const { what } of goals) expect(page).toContain(`\n| ${what} |`)
})

test('the page of results is one page', () => {
  expect(read(pageFile).split('\n').length).toBeLessThanOrEqual(pageLinesMax)
})
