import { expect, test } from 'bun:test'
import { compareProcesses } from '../../bench/processes.ts'
import { shortOptions } from './short-options.ts'

/** Not how fast: that one process and two answer all that they are asked. */
test('the bench of processes, short', async () => {
  const report = await compareProcesses({ ...shortOptions, cases: ['json64'] })
  const [row = ''] = report.split('\n').filter((line) => line.startsWith('| json64'))
  const cells = row.split('|').map((cell) => cell.trim())
  for (const count of cells.slice(2, 4)) expect(Number(count)).toBeGreaterThan(0)
  expect(cells.at(-2)).toBe('0')
}, 120_000)
