import { expect, test } from 'bun:test'
import { compareProcesses, fewLoads } from '../../../bench/processes.ts'
import { shortOptions } from '../../bench/short-options.ts'

/** Not how fast: that one process and two answer all that they are asked, and that the books of both balance. */
test('the bench of processes, short', async () => {
  const report = await compareProcesses(shortOptions, fewLoads)
  const rows = report.split('\n').filter((line) => /^\| (?:chat|paid chat)/.test(line))
  // Those with time of their own are missing where this user may make no control group, and the report says so.
  expect(rows).toHaveLength(report.includes('may make no control group') ? 3 : 5)
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim())
    for (const count of cells.slice(2, 4)) expect(Number(count)).toBeGreaterThan(0)
    expect(cells.at(-2)).toBe('0')
  }
  expect(report.match(/The books balance/g)).toHaveLength(2)
})
