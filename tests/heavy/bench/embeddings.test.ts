import { expect, test } from 'bun:test'
import { benchEmbeddings } from '../../../bench/embeddings.ts'
import { shortOptions } from '../../bench/short-options.ts'

/** Not how fast: that every vector comes back in its place, by however many nodes. */
test('the bench of embeddings, short', async () => {
  const report = await benchEmbeddings(shortOptions, 128)
  const rows = report.split('\n').filter((line) => /^\| +[124] /.test(line))
  expect(rows).toHaveLength(3)
  for (const row of rows) {
    const [, , seconds] = row.split('|').map((cell) => cell.trim())
    expect(Number(seconds)).toBeGreaterThan(0)
  }
})
