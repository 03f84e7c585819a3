import { expect, test } from 'bun:test'
import { compareConsoles, consolesOpen } from '../../../bench/consoles.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null

/** Not how fast: that every request is answered with consoles open and without, and that both are measured. */
test.skipIf(!canBuild)('the bench of the consoles, short', async () => {
  const report = await compareConsoles({ ...shortOptions, cases: ['json1', 'short'], secs: 0.5 })
  expect(report).toContain(`${consolesOpen} consoles`)
  const rows = report.split('\n').filter((line) => line.startsWith('| json1: ') || line.startsWith('| short: '))
  expect(rows.length).toBeGreaterThanOrEqual(4)
  for (const row of rows) {
    const [, , none, many, ratio, errors] = row.split('|').map((cell) => cell.trim())
    expect(errors).toBe('0')
    for (const value of [none, many, ratio]) expect(Number(value)).toBeGreaterThan(0)
  }
})
