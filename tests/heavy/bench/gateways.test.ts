import { expect, test } from 'bun:test'
import { compareGateways } from '../../../bench/gateways.ts'
import { shortOptions } from '../../bench/short-options.ts'

/** Not how fast: that one, two and three gateways behind nginx answer all that they are asked. */
test.skipIf(Bun.which('nginx') === null)('the bench of gateways, short (skipped without nginx)', async () => {
  const report = await compareGateways(shortOptions)
  const rows = report.split('\n').filter((line) => /^\| (?:chat|streams of 5)/.test(line))
  expect(rows).toHaveLength(2)
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim())
    for (const rate of cells.slice(2, 5)) expect(Number(rate.replaceAll(',', ''))).toBeGreaterThan(0)
    expect(cells.at(-2)).toBe('0')
  }
})
