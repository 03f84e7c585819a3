import { expect, test } from 'bun:test'
import { benchDrains } from '../../../bench/drains.ts'
import { shortOptions } from '../../bench/short-options.ts'

test('the bench of drains, short: no connection is reset, and /readyz says that the gateway ends', async () => {
  const report = await benchDrains(shortOptions, 1)
  const rows = report.split('\n').filter((line) => /^\| (?:one|two) process/.test(line))
  expect(rows).toHaveLength(3)
  for (const row of rows) {
    const [, name = '', times, answered, reset, , unready] = row.split('|').map((cell) => cell.trim())
    expect([name, times, reset]).toEqual([name, '1', '0'])
    expect(Number(answered)).toBeGreaterThan(20)
    if (name.includes('SIGTERM')) expect(Number(unready)).toBeGreaterThan(0)
    else expect(unready).toBe('0')
  }
})
