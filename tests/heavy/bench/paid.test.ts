import { expect, test } from 'bun:test'
import { benchLedger } from '../../../bench/ledger.ts'
import type { Sample } from '../../../bench/measure.ts'
import { comparePaid, paidRatios } from '../../../bench/paid.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null
/** Without the head of the table and its rule. */
const cellsOf = (report: string) =>
  report
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) => line.split('|').map((cell) => cell.trim()))

/** Not how fast: that both keys are answered, that one of them pays, and that the books balance. */
test.skipIf(!canBuild)('the bench of paid chat, short', async () => {
  const report = await comparePaid({ ...shortOptions, cases: ['json64', 'short'] })
  const rows = cellsOf(report)
  expect(rows.map((cells) => cells.at(-2))).toEqual(['0', '0', '0'])
  for (const cells of rows) for (const cell of cells.slice(2, 8)) expect(Number(cell)).toBeGreaterThan(0)
  expect(
    report.match(/paid is worse by p50 \d+\.\d\d, throughput \d+\.\d\d; the goal is within 1\.3: .*met/g),
  ).toHaveLength(2)
  expect(report).toMatch(/The books balance: [1-9]\d+ entries/)
})

test('the bench of the ledger, short', async () => {
  const report = await benchLedger({ ...shortOptions, cases: [] })
  const [alone, grouped] = cellsOf(report).map((cells) => Number(cells[2]))
  expect(alone).toBeGreaterThan(0)
  expect(grouped).toBeGreaterThan(0)
  expect(report).toContain('The books balance.')
})

test('a ratio above 1 means that paid is worse, by round', () => {
  const sample = (rps: number, p50: number) => ({ rps, lat: { p50, p99: p50 } }) as Sample
  const ratios = paidRatios({ free: [sample(100, 10), sample(50, 20)], paid: [sample(50, 13), sample(25, 26)] })
  expect(ratios).toEqual({ p50: 1.3, throughput: 2 })
})
