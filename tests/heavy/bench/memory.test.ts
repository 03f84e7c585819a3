import { expect, test } from 'bun:test'
import { benchMemory } from '../../../bench/memory.ts'
import { shortOptions } from '../../bench/short-options.ts'

test('the bench of memory, short: every large answer comes or is refused, and no other customer fails', async () => {
  const report = await benchMemory(shortOptions, 2, [3])
  const rows = report.split('\n').filter((line) => /^\| (?:one customer|20 customers)/.test(line))
  expect(rows).toHaveLength(4)
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim())
    const [, name = '', atOnce, answered, refused, broken] = cells
    expect([name, atOnce, answered, refused, broken]).toEqual([name, '3', '3', '0', '0'])
    expect(cells.at(-2)).toBe('0')
  }
})
