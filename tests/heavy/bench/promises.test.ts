import { expect, test } from 'bun:test'
import type { Sample } from '../../../bench/measure.ts'
import { benchPromises, cpuOfAllRounds, promiseCost } from '../../../bench/promises.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null

/** Not how fast: that one gateway promises and the other does not, and that both answer and are paid. */
test.skipIf(!canBuild)('the bench of promises, short', async () => {
  const report = await benchPromises(shortOptions)
  const rows = report.split('\n').filter((line) => /^\| (whole|stream)/.test(line))
  expect(rows.length).toBe(5)
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim())
    expect(cells.at(-2)).toBe('0')
    expect(Number(cells[2])).toBeGreaterThan(0)
  }
  expect(report.match(/The books balance: [1-9]\d+ entries/g)).toHaveLength(2)
})

test('a ratio above 1 means that promises cost as much more, by round and over all', () => {
  const sample = (rps: number, cpu: number, p50: number) =>
    ({ ok: rps, rps, cpu_us_req: cpu, cpu2_us_req: cpu, lat: { p50, p99: p50 } }) as Sample
  // In each two rounds the second to be measured gets a tenth more.
  // In each two rounds the way that is measured second gets a tenth more.
  const rounds = {
    without: [sample(100, 100, 1_000), sample(110, 90, 1_000), sample(100, 100, 1_000), sample(200, 100, 3_000)],
    with: [sample(110, 99, 2_000), sample(100, 110, 4_000), sample(120, 110, 4_000), sample(150, 130, 4_000)],
  }
  expect(promiseCost(rounds, 'cpu')).toEqual({ middle: 1.15, from: 1.1, to: 1.2 })
  expect(promiseCost(rounds, 'rps')).toEqual({ middle: 0.95, from: 0.9, to: 1 })
  expect(promiseCost(rounds, 'addedMs')).toEqual({ middle: 2, from: 2, to: 2 })
  expect(cpuOfAllRounds({ without: [sample(1, 10, 1), sample(3, 30, 1)], with: [sample(1, 50, 1)] })).toBe(2)
})
