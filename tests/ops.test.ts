import { expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { YAML } from 'bun'
import { unitFiles } from '../scripts/unit-files.ts'
import { ollamaOperations, operations, routeOf } from '../src/actors/operations/registry.ts'
import { startFakeNode } from '../src/fake-node/fake-node.ts'
import { formBytesMax } from '../src/protocol/media/form-body.ts'
import type { NodeList } from '../src/protocol/wire/admin/admin.ts'
import { readConfig, requiredSecrets } from '../src/settings/config.ts'
import { settings } from '../src/settings/table.ts'
import { startTestGateway, waitFor } from './support/gateways/gateway.ts'
import { enrollmentToken, startAgent } from './support/nodes/agents.ts'
import { fakeLaptop } from './support/nodes/fake-hardware.ts'
import { fixture, scoped } from './support/run/fixture.ts'

/** The files under `ops`, held to what the gateway really says and takes. */
const root = join(import.meta.dir, '..')
const read = (file: string) => readFileSync(join(root, 'ops', file), 'utf8')

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook: string }
}
const rules = (YAML.parse(read('alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}
const dashboard = JSON.parse(read('grafana-dashboard.json')) as {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly definition?: string }[] }
}
const expressions = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
  ...dashboard.templating.list.flatMap(({ definition }) =>
    definition === undefined ? [] : [['variable', definition] as const],
  ),
]

/** Sample name → the names of its labels. */
const samples = new Map<string, Set<string>>()
const described: string[] = []

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'] }))
const { customerId, key } = await gateway.customer()
await gateway.node(node.url, { customerId })
const ask = async (more: object) =>
  (await gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more })).text()
await ask({})
await ask({ stream: true })
await ask({ svc: { mixture: { strategy: 'vote', experts: [{ model: 'm' }] } } })
const details = { prompt_tokens_details: { cached_tokens: 6 } }
node.setAnswer({ usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, ...details } })
await ask({})
node.setFaults({ kind: 'status500' })
await ask({})
await payOnce()
const laptop = await fixture(fakeLaptop())
const { enrollment_token: token } = await enrollmentToken(gateway, customerId)
const hardware = { path: laptop.path, root: laptop.root, platform: 'linux' } as const
const agent = await fixture(startAgent({ gatewayUrl: gateway.url, token, runtimes: [node.url], hardware }))
// The load is that between two looks.
laptop.file('proc/stat', 'cpu  150 0 125 820 5 0 0 0 0 0\n')
await agent.node.hardware.look()
await waitFor('its hardware', async () => {
  const { nodes } = await gateway.admin<NodeList>('GET', '/v1/admin/nodes')
  return nodes.some(({ hardware: of }) => of?.load_percent !== undefined)
})
// The first proof of the books comes ten minutes after the start, unless somebody asks for one.
await gateway.admin('GET', '/v1/admin/ledger/proof')
const authorization = `Bearer ${gateway.tokens.viewer}`
const text = await (await fetch(`${gateway.url}/metrics`, { headers: { authorization } })).text()
for (const line of text.split('\n')) {
  const type = /^# TYPE (\S+)/.exec(line)
  if (type?.[1] !== undefined) described.push(type[1])
  const [, name, labels = ''] = /^([a-z_]+)(?:\{(.*)\})? /.exec(line) ?? []
  if (name === undefined) continue
  const known = samples.get(name) ?? new Set()
  for (const [, label = ''] of labels.matchAll(/(?:^|,)([a-z_]+)="/g)) known.add(label)
  samples.set(name, known)
}

/** What nobody pays for has no series of what was claimed. */
async function payOnce(): Promise<void> {
  const open = { min_privacy_class: 'public' as const }
  const [owner, payer] = [await gateway.customer(), await gateway.customer({ policy: open, keyPolicy: open })]
  const seller = startFakeNode({ models: ['paid'] })
  await gateway.node(seller.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1' })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '1000000' })
  const response = await gateway.chat(payer.key, { model: 'paid', messages: [{ role: 'user', content: 'hi' }] })
  expect(await response.text()).toContain('receipt_hash')
  seller.stop()
}

/** Labels that Prometheus itself puts onto what it scrapes. */
const scraped = ['job', 'instance']
const ourMetric = /\b((?:svc|gen_ai|process)_[a-z_]+)(?:\{([^}]*)\})?/g

test('§18: every metric that an alert or a panel names is there after traffic, with the labels it names', () => {
  expect(expressions.length).toBeGreaterThan(30)
  const faults: string[] = []
  for (const [where, expr] of expressions) {
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/,\s*/))
    // What stands in parentheses after `by` are labels, also where one looks like a metric.
    const measured = expr.replaceAll(/\bby \([^)]*\)/g, '')
    const known = new Set<string>(scraped)
    for (const [, name = '', matchers = ''] of measured.matchAll(ourMetric)) {
      const labels = samples.get(name)
      if (labels === undefined) faults.push(`${where}: no ${name}`)
      for (const label of labels ?? []) known.add(label)
      for (const [, label = ''] of matchers.matchAll(/([a-z_]+)(?:=~|!~|!=|=)"/g)) {
        if (labels?.has(label) === false && !scraped.includes(label)) faults.push(`${where}: ${name} has no ${label}`)
      }
    }
    faults.push(...grouped.filter((label) => !known.has(label)).map((label) => `${where}: nothing has ${label}`))
  }
  expect(faults).toEqual([])
})

test('every metric of the gateway is on the dashboard or in an alert', () => {
  const all = expressions.map(([, expr]) => expr).join('\n')
  expect(described.length).toBeGreaterThan(15)
  expect(described.filter((name) => !all.includes(name))).toEqual([])
})

test('§28: whatever looks at the routes of inference looks at every operation, and at nothing else', () => {
  const inference = [...operations, ...ollamaOperations].map(routeOf)
  const others = ['/v1/admin/nodes', '/v1/api/models', '/v1/api/models/{id}', '/api/tags', '/readyz']
  const patterns = expressions.flatMap(([where, expr]) =>
    [...expr.matchAll(/\broute(=~|!~|!=|=)"([^"]*)"/g)].map(([, sign = '', text = '']) => ({ where, sign, text })),
  )
  expect(patterns.length).toBeGreaterThan(4)
  for (const { where, sign, text } of patterns) {
    const matched = [...inference, ...others].filter((route) => new RegExp(`^(?:${text})$`).test(route))
    expect({ where, regular: sign.endsWith('~'), matched }).toEqual({ where, regular: true, matched: inference })
  }
})

interface AlertTests {
  readonly tests: readonly { readonly alert_rule_test: readonly { readonly alertname: string }[] }[]
}

test('the alerts that count by a label of routes or models have a case that promtool plays', () => {
  const { tests } = YAML.parse(read('alerts.test.yaml')) as AlertTests
  const played = new Set(tests.flatMap(({ alert_rule_test: cases }) => cases.map(({ alertname }) => alertname)))
  const wanted = rules.filter(({ expr }) => /route=|by \(model/.test(expr)).map(({ alert }) => alert)
  expect(wanted).toEqual(['PenstockErrors', 'PenstockNodeCallsFail', 'PenstockFull', 'PenstockThrashing'])
  expect(wanted.filter((alert) => !played.has(alert))).toEqual([])
})

test('every alert is in the table of docs/operations/observe.md, and no other', () => {
  const operations = readFileSync(join(root, 'docs/operations/observe.md'), 'utf8')
  const table = /\n## Alerts\n([\s\S]*?)\n## /.exec(operations)?.[1] ?? ''
  const listed = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)
  expect(listed.sort()).toEqual(rules.map(({ alert }) => alert).sort())
  for (const { labels, annotations } of rules) {
    expect(['critical', 'warning']).toContain(labels.severity)
    expect(annotations.runbook).toBe('docs/operations/observe.md#alerts')
  }
})

/** What the table says of an alert, what its rule asks for that, and for how long. */
const told: Readonly<Record<string, readonly [words: string, asks: string, holds: string | undefined]>> = {
  PenstockDown: ['has not answered its scrape for 1 min', '== 0', '1m'],
  PenstockNoReadyNode: ['No node takes work for 2 min, and none sleeps', 'state=~"ready|asleep"', '2m'],
  PenstockNodesAway: ['stale or offline for 10 min', 'state=~"stale|offline"', '10m'],
  PenstockErrors: ['5xx are more than 5 % of the inference requests for 5 min', '> 0.05', '5m'],
  PenstockNodeCallsFail: [
    'more than 10 % of the inference requests, of whatever operation, for 10 min',
    '> 0.1',
    '10m',
  ],
  PenstockFull: ['More than 6 inference requests a minute are refused with 429, for 10 min', 'status="429"', '10m'],
  PenstockQueue: ['waited without a pause for 10 min', 'min_over_time(sum(svc_requests_queued)[10m', undefined],
  PenstockThrashing: ['more than 12 times within an hour, for 15 min', '[1h])) > 12', '15m'],
  PenstockSlowFirstToken: ['p95 of the first token above 5 s for 10 min', '> 5', '10m'],
  PenstockMixturesFail: ['More than 9 mixtures of one strategy within 15 min', '> 0.01', '15m'],
  PenstockReceiptsLost: ['Receipts were dropped', 'svc_receipts_dropped_total[15m]) > 0', undefined],
  PenstockReceiptForged: ['kept receipts out of the public log', 'svc_receipts_forged_total[15m]) > 0', undefined],
  PenstockLogStopped: ['adds nothing to the public log', 'svc_log_stopped) > 0', undefined],
  PenstockBooksBroken: ['found a broken rule', 'max(svc_ledger_books_broken_rules) > 0', undefined],
  PenstockClaimsAtBound: ['more than 5 of its last 100 paid calls', '> 5', undefined],
  PenstockAuditLost: ['Access events were never stored', 'refused_total[15m]) > 0', undefined],
  PenstockAuditHeadLost: ["its gateway's audit chain missing", 'svc_audit_head_lost) > 0', undefined],
  PenstockWebhooksFail: ['More than half of all attempts to deliver a webhook fail for 15 min', '> 0.5', '15m'],
  PenstockTunnelsRefused: ['More than 10 refused tunnels in 15 min with one `code`, for 5 min', '[15m])) > 10', '5m'],
  PenstockGuessing: ['More than one 401 a second for 5 min', 'status="401"}[5m])) > 1', '5m'],
  PenstockRestarts: ['Three starts within 30 min', '[30m]) > 2', undefined],
  PenstockMemoryFull: ['More than 80 %', '[10m:30s]) > 0.8', undefined],
  PenstockMemoryRefused: ['More than 10 requests in 15 min', '[15m])) > 10', undefined],
  PenstockDescriptors: ['more than 50 000 open descriptors for 5 min', '> 50000', '5m'],
  PenstockTracesLost: ['dropped for 15 min', '[15m]) > 0', '15m'],
}

test('what the table of docs/operations/observe.md says of an alert is what its rule asks, and how long', () => {
  const operations = readFileSync(join(root, 'docs/operations/observe.md'), 'utf8')
  expect(Object.keys(told).sort()).toEqual(rules.map(({ alert }) => alert).sort())
  for (const { alert, expr, for: holds } of rules) {
    const [words = '', asks = '', length] = told[alert] ?? []
    const row = operations.split('\n').find((line) => line.startsWith(`| \`${alert}\` |`)) ?? ''
    expect([alert, row.includes(words), expr.includes(asks), holds]).toEqual([alert, true, true, length])
  }
})

test('every setting that a file names exists, and the file that it runs does, too', () => {
  const files = [
    'Dockerfile',
    'compose.yaml',
    'compose.home.yaml',
    'new-secrets.sh',
    'penstock.service',
    'penstock-backup.service',
    'penstock-node.service',
    'penstock-monitor.service',
    'nginx.conf',
    'Caddyfile',
  ]
  for (const file of files) {
    const named = [...read(file).matchAll(/\b(?:SVC_|OTEL_)[A-Z_]*[A-Z]\b/g)].map(([name]) => name)
    expect({ file, unknown: named.filter((name) => !(name in settings)) }).toEqual({ file, unknown: [] })
  }
  expect(statSync(join(root, 'penstock')).mode & 0o111).not.toBe(0)
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const [, script = ''] of read('Dockerfile').matchAll(/npm run (\w+)/g)) expect(scripts[script]).toBeDefined()
})

interface Compose {
  readonly services: {
    readonly gateway: {
      readonly build: { readonly context: string; readonly dockerfile: string }
      readonly stop_grace_period: string
      readonly environment?: Readonly<Record<string, string>>
      readonly volumes?: readonly string[]
      readonly tmpfs?: readonly string[]
    }
  }
}

test.each(['compose.yaml', 'compose.home.yaml'])('%s fits the other files and the gateway', (file) => {
  const { gateway: service } = (YAML.parse(read(file)) as Compose).services
  expect(existsSync(join(root, 'ops', service.build.context, service.build.dockerfile))).toBe(true)
  expect(Number.parseInt(service.stop_grace_period, 10) * 1_000).toBeGreaterThan(settings.SVC_SHUTDOWN_GRACE_MS.default)
  // Several processes keep their sockets there (§33), and nothing else in the container can be written.
  expect(service).toMatchObject({ read_only: true, tmpfs: ['/tmp'] })
})

test('the home has what the first start needs to make its credentials, and the secrets stay out of git and images', () => {
  const { gateway: home } = (YAML.parse(read('compose.home.yaml')) as Compose).services
  expect(home.environment?.SVC_BOOTSTRAP).toBe('true')
  const folder = /SVC_DATA_DIR=(\S+)/.exec(read('Dockerfile'))?.[1] ?? 'none'
  expect(home.volumes).toContain(`data:${folder}`)
  expect(read('Dockerfile')).toContain(`--chown=nonroot:nonroot /out/data ${folder}`)
  const ignored = Bun.spawnSync(['git', 'check-ignore', '--no-index', 'ops/penstock.env'], { cwd: root })
  expect([ignored.exitCode, read('Dockerfile.dockerignore').split('\n').includes('**/*.env')]).toEqual([0, true])
})

test('the drawn secrets make a gateway start', async () => {
  const made = Bun.spawnSync(['sh', join(root, 'ops/new-secrets.sh')])
  expect(made.exitCode).toBe(0)
  const env = Object.fromEntries(
    made.stdout
      .toString()
      .trim()
      .split('\n')
      .map((line) => line.split('=') as [string, string]),
  )
  for (const name of [...requiredSecrets, 'SVC_ADMIN_TOKENS', 'POSTGRES_PASSWORD'])
    expect(env[name]).toMatch(/^[0-9a-f]{48,}$/)
  // No two are alike; and nothing is missing where the test's own gateway would step in with its defaults.
  expect(new Set(Object.values(env)).size).toBe(Object.keys(env).length)
  expect(readConfig({ ...env, DATABASE_URL: 'postgres://penstock@127.0.0.1/penstock' })).not.toHaveProperty('faults')
  await using fresh = await scoped(startTestGateway({ env }))
  const response = await fetch(`${fresh.url}/v1/admin/nodes`, {
    headers: { 'x-svc-admin-token': env.SVC_ADMIN_TOKENS ?? '' },
  })
  expect(response.status).toBe(200)
})

test('§6: the proxies wait longer than the gateway, and buffer nothing', () => {
  const nginx = read('nginx.conf')
  const seconds = (name: string) => Number(new RegExp(`${name} (\\d+)s;`).exec(nginx)?.[1] ?? 0)
  const longest = Math.max(settings.SVC_TOTAL_TIMEOUT_MS.default, settings.SVC_MIXTURE_DEADLINE_MS.default)
  for (const name of ['proxy_read_timeout', 'proxy_send_timeout'])
    expect(seconds(name) * 1_000).toBeGreaterThan(longest)
  expect(nginx).toContain('proxy_buffering off;')
  const bodyBytes = Number(/client_max_body_size (\d+)m;/.exec(nginx)?.[1] ?? 0) * 1024 * 1024
  // Caddy's MB are millions.
  const caddyBytes = Number(/max_size (\d+)MB/.exec(read('Caddyfile'))?.[1] ?? 0) * 1e6
  for (const bytes of [bodyBytes, caddyBytes])
    expect(bytes).toBeGreaterThanOrEqual(Math.max(settings.SVC_CHAT_BODY_BYTES_MAX.default, formBytesMax))
  // It would keep from the gateway that a client has left (tests/heavy/proxies).
  expect(read('Caddyfile')).not.toMatch(/^\s*flush_interval/m)
})

test.skipIf(Bun.which('systemd-analyze') === null)('the unit of the gateway is exposed by 2.5 at most', () => {
  const args = ['systemd-analyze', 'security', '--offline=true', join(root, 'ops/penstock.service')]
  const said = Bun.spawnSync(args, { env: { ...process.env, SYSTEMD_PAGER: '' } }).stdout.toString()
  expect(Number(/exposure level for penstock\.service: ([0-9.]+)/.exec(said)?.[1])).toBeLessThanOrEqual(2.5)
})

/** The names of elements in the order in which they end; throws where the text is no XML as this file needs it. */
function elementsOf(xml: string): readonly string[] {
  const open: string[] = []
  const ended: string[] = []
  // A comment holds no `--`, and a text no bare `&` (XML 1.0 §2.5, §2.4).
  const tokens = /<\?xml [^?]*\?>|<!DOCTYPE [^>]*>|<!--(?:(?!--)[\s\S])*-->|<(\/?)(\w+)[^<>]*?(\/?)>|(?:[^<&]|&\w+;)+/y
  while (tokens.lastIndex < xml.length) {
    const at = tokens.lastIndex
    const token = tokens.exec(xml)
    if (token === null) throw new Error(`no XML from: ${xml.slice(at, at + 40)}`)
    const [, closes, name, empty] = token
    if (name === undefined) continue
    if (closes === '/' && open.pop() !== name) throw new Error(`${name} ends where it did not begin`)
    if (closes === '/' || empty === '/') ended.push(name)
    else open.push(name)
  }
  if (open.length > 0) throw new Error(`${open.join(', ')} without an end`)
  return ended
}

test('the units of ops are what the commands that install services write', () => {
  for (const [file, text] of unitFiles()) expect({ file, text: read(file) }).toEqual({ file, text })
})

test('what launchd reads is XML', () => {
  expect(elementsOf(read('penstock-node.plist')).at(-1)).toBe('plist')
  expect(() => elementsOf('<a><!-- --b --></a>')).toThrow('no XML')
  expect(() => elementsOf('<a><b></a></b>')).toThrow('where it did not begin')
})

test('§22: what starts the agent with the computer runs what the pasted line has left, and never starts a revoked one again', () => {
  const unit = read('penstock-node.service')
  expect(unit).toContain('WorkingDirectory=%h/.local/share/penstock')
  expect(unit).toContain('Restart=on-failure')
  const plist = read('penstock-node.plist')
  expect(plist).toMatch(/<key>SuccessfulExit<\/key>\s*<false\/>/)
  for (const text of [unit, plist.replaceAll('&amp;', '&')]) {
    const script =
      /(?:ExecStart=\/bin\/sh -c '|<string>)((?:cd "[^"]*" && )?exec "\$\(command -v bun[^<']*)/.exec(text)?.[1] ?? ''
    // In a folder as the line leaves it, where no other Bun is found.
    const home = mkdtempSync(join(tmpdir(), 'penstock-unit-'))
    const folder = join(home, '.local/share/penstock')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'bun'), '#!/bin/sh\necho "$PWD $*"\n', { mode: 0o755 })
    const ran = Bun.spawnSync(['/bin/sh', '-c', script], { cwd: folder, env: { HOME: home, PATH: '/nowhere' } })
    expect(ran.stdout.toString().trim()).toBe(`${realpathSync(folder)} agent.mjs`)
    rmSync(home, { recursive: true })
  }
})
