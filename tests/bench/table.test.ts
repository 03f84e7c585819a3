import { describe, expect, test } from 'bun:test'
import type { Sample } from '../../bench/measure.ts'
import { readOptions, UsageError } from '../../bench/options.ts'
import { withSection } from '../../bench/results.ts'
import { caseTable, goalTable, median, type Rounds, ratio } from '../../bench/table.ts'

const sample = (change: Partial<Sample>): Sample => ({
  ok: 0,
  rps: 0,
  chunks_s: 0,
  err: { connect: 0, status: 0, short: 0, reset: 0 },
  open: 0,
  lat: { p50: 0, p99: 0 },
  let_go_ns: '0',
  self_cpu_pct: 0,
  ...change,
})
const rounds = (direct: readonly number[], raw: readonly number[], penstock: readonly number[]): Rounds => ({
  direct: direct.map((rps) => sample({ rps })),
  'raw Bun': raw.map((rps) => sample({ rps, cpu_us_req: 50 })),
  Penstock: penstock.map((rps) => sample({ rps, cpu_us_req: 100, cpu2_us_req: 20 })),
})

describe('the tables of the bench', () => {
  test('the median of an even number is the mean of the middle two; what is not known is left out', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5)
    expect(median([9, Number.NaN, 1, 5])).toBe(5)
    expect(median([])).toBeNaN()
  })

  test('a ratio is taken within each round: a slow round changes it no more than a fast one', () => {
    expect(ratio(rounds([1, 1, 1], [100, 10, 100], [80, 8, 90]), 'rps')).toBeCloseTo(0.8)
  })

  test('a case has a row for each target, the ratio, and the errors', () => {
    const given = rounds([200], [100], [80])
    const table = caseTable('json64', {
      ...given,
      Penstock: given.Penstock.map((row) => ({ ...row, err: { connect: 0, status: 2, short: 1, reset: 0 } })),
    })
    const cells = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
    const row = (name: string) => cells.find(([, first]) => first === name)?.slice(2, -1)
    expect(row('')).toEqual(['requests/s', 'p50 µs', 'p99 µs', 'CPU s/1,000 req', 'with database', 'errors'])
    expect(row('raw Bun')).toEqual(['100', '0', '0', '0.050', '', '0'])
    expect(row('Penstock')).toEqual(['80', '0', '0', '0.100', '0.120', '3'])
    expect(row('Penstock ÷ raw Bun')).toEqual(['0.80', '', '', '2.00', '2.40', ''])
  })

  test('a goal says whether it is met', () => {
    expect(goalTable(new Map([['json64', rounds([1], [100], [50])]]))).toContain('≥ 0.5 |     0.50 | yes |')
    expect(goalTable(new Map([['json64', rounds([1], [100], [45])]]))).toContain('**no**')
  })

  test('a section takes the place of its last version and leaves the others', () => {
    const first = withSection(withSection('# Results\n', 'gateway', 'a'), 'affinity', 'b')
    const second = withSection(first, 'gateway', 'c')
    expect(second).toBe(
      '# Results\n\n<!-- gateway -->\nc\n<!-- end of gateway -->\n\n<!-- affinity -->\nb\n<!-- end of affinity -->\n',
    )
  })

  test('options are read or refused with what is wrong', () => {
    expect(readOptions(['--only', 'stream,json1', '--rounds', '2', '--pin'])).toMatchObject({
      command: 'gateway',
      cases: ['json1', 'stream'],
      rounds: 2,
      pin: { proxyCpu: '0', loadCpu: '1' },
    })
    expect(readOptions(['affinity', '--write'])).toMatchObject({ command: 'affinity', write: true })
    expect(readOptions(['mixture'])).toMatchObject({ command: 'mixture', write: false })
    for (const wrong of [['--only', 'json2'], ['--secs', 'x'], ['--sesc', '1'], ['afinity'], ['mixture', 'x']])
      expect(() => readOptions(wrong)).toThrow(UsageError)
  })
})
