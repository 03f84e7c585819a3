import { expect, test } from 'bun:test'
import { compareTunnel } from '../../../bench/tunnel.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null

/** Not how fast: that a chat goes all three ways, and that each is measured. */
test.skipIf(!canBuild)(
  'the bench of the tunnel, short: every request is answered, whichever way leads to the node',
  async () => {
    const report = await compareTunnel({ ...shortOptions, cases: ['json1', 'short'] })
    const rows = report.split('\n').filter((line) => /^\|.*\d\.\d{3} /.test(line))
    expect(rows.length).toBe(2)
    for (const row of rows) {
      const cells = row.split('|').map((cell) => cell.trim())
      expect(cells.at(-2)).toBe('0')
      for (const p50 of cells.slice(2, 5)) expect(Number(p50)).toBeGreaterThan(0)
    }
    expect(report).toMatch(/Added to the p50 of one request: -?\d/)
  },
)
