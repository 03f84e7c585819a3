import { expect, test } from 'bun:test'
import { compareDialects, dialects } from '../../../bench/dialects.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null

/** Not how fast: that every stream ends well, and that each is measured. */
test.skipIf(!canBuild)('the bench of the dialects, short', async () => {
  const report = await compareDialects({ ...shortOptions, secs: 0.1 })
  const rows = report.split('\n').filter((line) => Object.keys(dialects).some((name) => line.startsWith(`| ${name} `)))
  expect(rows).toHaveLength(3)
  for (const row of rows) {
    const [, , cpu, ratio, errors] = row.split('|').map((cell) => cell.trim())
    expect(errors).toBe('0')
    for (const value of [cpu, ratio]) expect(Number(value)).toBeGreaterThan(0)
  }
})
