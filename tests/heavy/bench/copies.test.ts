import { expect, test } from 'bun:test'
import { benchCopies } from '../../../bench/copies.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null
const limitMs = 240_000

/** Not how fast: that requests are answered beside a copy, and that the copy goes on meanwhile. */
test.skipIf(!canBuild)(
  'the bench of copies, short: every request is answered beside a copy, with its bound and without',
  async () => {
    const report = await benchCopies({ ...shortOptions, cases: ['stream'] })
    const rows = report.split('\n').filter((line) => line.startsWith('| stream: '))
    expect(rows.length).toBe(3)
    for (const row of rows) {
      const cells = row.split('|').map((cell) => cell.trim())
      expect(cells.at(-2)).toBe('0')
      expect(Number(cells[5])).toBeGreaterThan(0)
    }
    expect(report).toMatch(/A copied MB costs the gateway \d/)
  },
  limitMs,
)
