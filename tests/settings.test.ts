import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { processesOf, readConfig, requiredSecrets } from '../src/settings/config.ts'
import { settings } from '../src/settings/table.ts'
import { operationsText } from './support/walks/operations-documents.ts'

test('every setting stands in one subject, and every subject in the table', () => {
  const root = join(import.meta.dir, '../src/settings')
  const named = [...new Bun.Glob('*.ts').scanSync({ cwd: root })].flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name = '']) => name),
  )
  expect(named.sort()).toEqual(Object.keys(settings).sort())
})

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, min: 60_000, h: 3_600_000, hours: 3_600_000 }
const numberOf = (text: string, unit = '') => Number(text.replaceAll(',', '')) * (unitMs[unit] ?? 1)
const defaultOf = (name: string) =>
  (settings as Readonly<Record<string, { readonly default?: unknown }>>)[name]?.default

test('every number that docs/operations tells of a setting is its default', () => {
  const text = operationsText()
  const beside = [...text.matchAll(/`(SVC_\w+)` \((\d[\d,]*)(?: (ms|s|min|hours))?[,;)]/g)]
  expect(beside.length).toBeGreaterThan(12)
  for (const [said, name = '', value = '', unit] of beside)
    expect([said, defaultOf(name)]).toEqual([said, numberOf(value, unit)])
  const waits = /\n## Timeouts and queues\n([\s\S]*?)\n## /.exec(text)?.[1] ?? ''
  const rows = [...waits.matchAll(/^\| .+ \| (.*`SVC_.*) \| ([^|]+) \|$/gm)]
  expect(rows).toHaveLength(10)
  for (const [row, names = '', values = ''] of rows) {
    const named = [...names.matchAll(/`(SVC_\w+)`/g)].map(([, name = '']) => defaultOf(name))
    const told = values.split(', ').map((value) => numberOf(...(value.split(' ') as [string, string?])))
    expect([row, named]).toEqual([row, told])
  }
})

/** The numbers marked ⚙ in docs/specification.md, written out: default, least, most. */
const marked: Readonly<Record<string, readonly [number | string | boolean, number?, number?]>> = {
  SVC_SHUTDOWN_GRACE_MS: [30_000],
  SVC_KEY_ROTATION_MS: [86_400_000, 0, 604_800_000],
  SVC_AUTH_FAILURES_PER_MINUTE: [20],
  SVC_AUTH_LOCKOUT_MS: [300_000],
  SVC_FAILOVER_ROUTES_MAX: [2],
  SVC_FAILOVER_FIRST_CHUNK_MS: [10_000],
  SVC_QUEUE_WAIT_MS: [10_000],
  SVC_QUEUE_WAITING_MAX: [64],
  SVC_QUEUE_WAITING_KEY_MAX: [16],
  SVC_FINISH_HOLD_MS: [2_000],
  SVC_HEADER_COMMIT_MS: [8_000, 0, 9_000],
  SVC_KEEP_ALIVE_MS: [10_000, 5_000, 30_000],
  SVC_CONNECT_TIMEOUT_MS: [5_000],
  SVC_TTFT_TIMEOUT_MS: [120_000],
  SVC_INTER_CHUNK_TIMEOUT_MS: [60_000],
  SVC_TOTAL_TIMEOUT_MS: [600_000],
  SVC_SLOW_CLIENT_TIMEOUT_MS: [60_000],
  SVC_MIXTURE_TOKENS_MAX: [65_536, 1_024, 1_048_576],
  SVC_MIXTURE_DEADLINE_MS: [120_000, 5_000, 600_000],
  SVC_MIXTURE_EXPERTS_MAX: [4, 1, 16],
  SVC_EJECTION_MS: [30_000],
  SVC_POLL_INTERVAL_MS: [5_000],
  SVC_PROBE_TIMEOUT_MS: [2_000],
  SVC_STALE_AFTER_MS: [15_000],
  SVC_OFFLINE_AFTER_MS: [45_000],
  SVC_HOLD_DOWN_MS: [300_000],
  SVC_DRAIN_TIMEOUT_MS: [300_000],
  SVC_COLD_WAIT_MS: [180_000],
  SVC_REQUEST_LOG_DAYS: [7, 0, 365],
  SVC_PROTOCOL_FEE_BPS: [1_000],
  SVC_ENROLLMENT_TTL_MS: [900_000],
  SVC_CHAT_BODY_BYTES_MAX: [8 * 1024 * 1024],
  SVC_PUBLIC_RPM_PER_IP: [600],
  SVC_ADMIN_RPM_PER_TOKEN: [600],
  SVC_AUDIT_REVIEW_DENIED: [20],
  SVC_AUDIT_REVIEW_ERRORS: [20],
  SVC_AUDIT_WATCH_DENIED: [5],
  SVC_AUDIT_WATCH_ERRORS: [5],
  SVC_CHAIN_CONFIRMATIONS: [64],
  SVC_MARKETPLACE_SEGMENT: ['marketplace'],
  SVC_DEMO: ['auto'],
  SVC_DISCOVER: [true],
  SVC_PROCESSES: ['1'],
}

test('§§1–33: the numbers that the specification marks ⚙ are defaults and bounds of the settings', () => {
  for (const [name, [value, least, most]] of Object.entries(marked)) {
    const {
      default: byDefault,
      min,
      max,
    } = settings[name as keyof typeof settings] as {
      readonly default?: unknown
      readonly min?: number
      readonly max?: number
    }
    expect([name, byDefault, least ?? min, most ?? max]).toEqual([name, value, min, max])
  }
  const drained = (env: Readonly<Record<string, string>>) => {
    const read = readConfig({ ...env, SVC_DRAIN_MS: '' })
    return 'config' in read ? [read.config.SVC_DRAIN_MS, read.config.SVC_DEMO] : read.faults
  }
  const secrets = Object.fromEntries(
    requiredSecrets.map((name, at) => [name, Buffer.alloc(32, at + 1).toString('hex')]),
  )
  expect(drained({})).toEqual([300, 'auto'])
  expect(drained({ ...secrets, DATABASE_URL: 'postgres://x', SVC_ADMIN_TOKENS: 't' })).toEqual([5_000, 'never'])
})

test('§33: SVC_PROCESSES=auto is one process less than there are cores, from 1 to 64; a number is that many', () => {
  const auto = [1, 2, 3, 16, 65, 256].map((cores) => processesOf({ SVC_PROCESSES: 'auto' }, cores))
  expect(auto).toEqual([1, 1, 2, 15, 64, 64])
  expect(processesOf({ SVC_PROCESSES: '64' }, 2)).toBe(64)
  const faults = (text: string) => {
    const read = readConfig({ SVC_PROCESSES: text })
    return 'faults' in read ? read.faults : []
  }
  expect(['auto', '1', '64'].flatMap(faults)).toEqual([])
  expect(['0', '65', 'all'].map((text) => faults(text).length)).toEqual([1, 1, 1])
})
