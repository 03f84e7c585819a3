import { expect, test } from 'bun:test'
import { compare } from '../../../bench/compare.ts'
import { errorsOf } from '../../../bench/measure.ts'
import { targetNames } from '../../../bench/targets.ts'
import { shortOptions } from '../../bench/short-options.ts'

const canBuild = process.platform === 'linux' && Bun.which(process.env.CC ?? 'cc') !== null

/** Not how fast: that the rig measures, and that each target answers every request whole. */
test.skipIf(!canBuild)(
  'the bench, short: direct, raw Bun and Penstock answer every request and are measured',
  async () => {
    const { report, results } = await compare({ ...shortOptions, cases: ['json64', 'short'], limits: true })
    for (const name of ['json64', 'short'] as const) {
      const rounds = results.get(name)
      for (const target of targetNames) {
        const [sample] = rounds?.[target] ?? []
        expect({ name, target, errors: sample && errorsOf(sample), bad: sample?.bad }).toMatchObject({ errors: 0 })
        expect(sample?.rps).toBeGreaterThan(0)
        expect(sample?.cpu_us_req).toBeGreaterThan(0)
      }
    }
    expect(report).toContain('### short')
  },
)
