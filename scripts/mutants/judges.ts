import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { secondMs } from '../../src/time.ts'
import { type Coverage, readLcov, runsEdit } from './coverage.ts'
import type { Mutant } from './edit.ts'
import type { ReachingTest } from './reach.ts'
import { runTest, type TestRunner } from './test-run.ts'
import type { TreeCopy } from './tree-copy.ts'

export type Verdict =
  /** `late`: the test did not end in time, as it does without the edit. */
  | { readonly kind: 'killed'; readonly test: string; readonly late: boolean }
  /** So many test files that run the line have passed, of those that were looked at; `left`: so many more were not. */
  | { readonly kind: 'survived'; readonly passed: number; readonly looked: number; readonly left: number }
  /** The time was over before any test file had passed. */
  | { readonly kind: 'unjudged' }

/** How a test file runs without any edit. */
interface Baseline {
  readonly passes: boolean
  readonly ms: number
  readonly coverage: Coverage
}

const baselineMsMax = 180 * secondMs
/** With an edit a test may take longer by so much, and is late beyond it. */
const lateTimes = 3
const lateMs = 10 * secondMs

/** Runs each test file once without an edit, when it is first needed: what fails then proves nothing. */
export class Judges {
  private readonly baselines = new Map<string, Baseline>()

  constructor(
    private readonly runner: TestRunner,
    private readonly copy: TreeCopy,
    private readonly warn: (line: string) => void,
  ) {}

  /** Asks one test after the other until one fails with the edit, until `untilMs`. */
  async judge(mutant: Mutant, tests: readonly ReachingTest[], untilMs: number): Promise<Verdict> {
    let passed = 0
    for (const [at, { test, starts }] of tests.entries()) {
      if (this.isOver(untilMs)) return this.outOfTime(passed, at, tests.length - at)
      const { passes, ms, coverage } = await this.baseline(test)
      if (!passes || !(starts || runsEdit(coverage, mutant))) continue
      const limitMs = lateTimes * ms + lateMs
      const outcome = await this.copy.withEdit(mutant, () => runTest(this.runner, test, { limitMs }))
      if (this.runner.signal.aborted) return { kind: 'unjudged' }
      if (outcome !== 'passed') return { kind: 'killed', test, late: outcome === 'late' }
      passed++
    }
    return { kind: 'survived', passed, looked: tests.length, left: 0 }
  }

  private isOver(untilMs: number): boolean {
    return performance.now() > untilMs || this.runner.signal.aborted
  }

  private outOfTime(passed: number, looked: number, left: number): Verdict {
    const unjudged = passed === 0 || this.runner.signal.aborted
    return unjudged ? { kind: 'unjudged' } : { kind: 'survived', passed, looked, left }
  }

  private async baseline(test: string): Promise<Baseline> {
    const known = this.baselines.get(test)
    if (known !== undefined) return known
    const coverageFolder = mkdtempSync(join(this.runner.scratch, 'coverage-'))
    const fromMs = performance.now()
    const outcome = await runTest(this.runner, test, { limitMs: baselineMsMax, coverageFolder })
    const report = join(coverageFolder, 'lcov.info')
    const coverage = existsSync(report) ? readLcov(readFileSync(report, 'utf8')) : new Map()
    rmSync(coverageFolder, { recursive: true, force: true })
    const made = { passes: outcome === 'passed', ms: performance.now() - fromMs, coverage }
    if (!made.passes && !this.runner.signal.aborted) this.warn(`${test} does not pass without an edit, and is left out`)
    this.baselines.set(test, made)
    return made
  }
}
