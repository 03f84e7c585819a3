import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A test that asks how fast something was fails where the machine is busy. Timing belongs to bench/ and to heavy tests; a
 * test waits for what must come (`tests/support/run/wait-until.ts`) up to one limit (`limits.ts` beside it), asks of time
 * that at least so much has passed (`stopwatch.ts`), and plays what takes time by `lasts.ts`.
 */
const root = join(import.meta.dir, '..')

interface Rule {
  readonly forbids: string
  readonly pattern: RegExp
  /** What to do instead. */
  readonly instead: string
  /** Files where it stands for a reason of their own. */
  readonly allowed: Readonly<Record<string, string>>
}

const rules: readonly Rule[] = [
  {
    forbids: 'a clock that bounds from above, and a sleep',
    pattern: /\bperformance\.now\b|\bBun\.sleep\b|\bset(?:Timeout|Interval)\(|\bwaitForTimeout\b/,
    instead: 'await the event by waitFor, waitUntil or settled; for at least so long there are stopwatch and lasts',
    allowed: {
      'tests/protocol/media/form-body.test.ts': 'turns the clock of the process on by two minutes',
      'tests/runtimes/rerank.test.ts': 'counts the turns that others get beside a long computation',
      'tests/host/port-holder.test.ts': 'keeps a child process alive until its signal',
      'tests/process/launcher.test.ts': 'keeps child processes alive until their signal',
      'tests/scripts/bun.test.ts': 'keeps a child process alive until its signal',
      'tests/actors/pool/heard-polls.test.ts': 'says when a poll went out',
      'tests/actors/siblings/leaders-polls.test.ts': 'says when a poll went out',
      'tests/process/shared-polls.test.ts': 'counts polls by the time in which they were made, however long it was',
      'tests/regressions/answers-that-fill-memory.test.ts': 'samples the memory of a process while it works',
      'tests/scripts/by-hand.test.ts': 'looks at a folder while another run goes on',
    },
  },
  {
    forbids: 'a bound of elapsed time from above',
    pattern:
      /\bexpect\([^\n]*(?:Ms\b|\bms\b|Date\.now|tookMs|sinceMs)[^\n]*\)\.toBeLessThan|\.toBeLessThan(?:OrEqual)?\([^\n]*(?:Ms(?:Max)?\b(?!\()|promptly)/,
    instead: 'show the order of events, a count, or something that goes on meanwhile; how fast it is, bench/ measures',
    allowed: {
      'tests/actors/polls/shared-polls.test.ts': 'a clock of its own',
      'tests/actors/limits/limits.test.ts': 'what is left of a lease against the lease: the clock of the database',
      'tests/db/audit-events.test.ts': 'the order of stored moments',
      'tests/machines/rules/placement.test.ts': 'times of a simulation',
      'tests/spec/admin/admin-keys.test.ts': 'the difference of two stored moments',
      'tests/spec/api/traces.test.ts': 'one span lies within the other',
      'tests/spec/mixture/mixture-abandoned.test.ts': 'the order of two moments that are seconds apart',
      'tests/http/warm-up.test.ts': 'a moment in the log lies before one of the test',
    },
  },
  {
    forbids: 'a pace that is scaled by what the machine does',
    pattern: /\/run\/pace\.ts'/,
    instead: 'a condition: only the hostile tests, whose subject is promptness, scale their patience',
    allowed: {},
  },
  {
    forbids: 'a limit of its own for a test or a hook',
    pattern:
      /^\s*\}, [0-9_]+\)$|^\s*\},\n\s*[0-9_]{4,},\n\s*\)$|\bsetDefaultTimeout\([0-9]|\bAbortSignal\.timeout\([0-9]/,
    instead:
      'nothing: each has testLimitMs, and a request that must not hang has waitLimitMs (tests/support/run/limits.ts)',
    allowed: {},
  },
]

const files = [...new Bun.Glob('tests/**/*.test.ts').scanSync({ cwd: root })]
  .filter((file) => !file.startsWith('tests/heavy/') && file !== 'tests/clocks.test.ts')
  .sort()
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))

test.each(rules.map((rule) => [rule.forbids, rule] as const))('no test has %s', (_, rule) => {
  const hostile = (file: string) => file.startsWith('tests/hostile/') && rule.pattern.source.includes('pace')
  const faults = files
    .filter((file) => rule.allowed[file] === undefined && !hostile(file))
    .flatMap((file) => {
      const text = texts.get(file) ?? ''
      return [...text.matchAll(new RegExp(rule.pattern, 'gm'))].map(
        ({ 0: found, index }) => `${file}:${text.slice(0, index).split('\n').length}: ${found.trim()}`,
      )
    })
  expect({ faults, instead: rule.instead }).toEqual({ faults: [], instead: rule.instead })
})

test('what is allowed is there', () => {
  for (const { allowed, pattern } of rules) {
    const stale = Object.keys(allowed).filter((file) => !new RegExp(pattern, 'm').test(texts.get(file) ?? ''))
    expect(stale).toEqual([])
  }
})
