import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const auditKey = 'the-key-of-the-audit-of-these-tests'

const gateway = await fixture(startTestGateway({ env: { SVC_LOG_INTERVAL_MS: '5000', SVC_AUDIT_KEY: auditKey } }))
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
for (const name of ['Ada', 'Grace', 'Hedy'])
  await gateway.admin('POST', '/v1/admin/customers', { display_name: name, reason: name })
const { keys } = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: string[] }
const logKey = keys[0] ?? ''

interface Chain {
  readonly writer_id: string
  readonly ordinal: number
  readonly seq: number
  readonly mac: string
  readonly begins: { readonly seq: number; readonly mac: string; readonly tombstone: object | null }
  readonly events: readonly { readonly kind: string; readonly facts: string; readonly mac: string }[]
  readonly logged: { readonly seq: number; readonly mac: string; readonly log_proof: string } | null
}
interface Export {
  readonly object: string
  readonly chains: readonly Chain[]
  readonly consistency: readonly object[]
}
const exported = () => cli.json<Export & Record<string, unknown>>('audit', 'export')

function file(content: unknown): string {
  const at = join(cli.home, `${crypto.randomUUID()}.json`)
  writeFileSync(at, JSON.stringify(content))
  return at
}
const run = (content: unknown, ...args: string[]) =>
  cli.run(['verify', 'audit', file(content), '--json', '--log-key', logKey, ...args])
async function verified(content: unknown, key = auditKey) {
  const { code, out } = await run(content, '--audit-key', key)
  const { verdicts } = JSON.parse(out) as { verdicts: { checks: { name: string; ok: boolean | null }[] }[] }
  const failed = verdicts.flatMap(({ checks }) => checks).filter(({ ok }) => ok === false)
  return { code, failed: failed.map(({ name }) => name.split(' ')[0]) }
}

describe('§31: `verify audit` of what `audit export` wrote, offline', () => {
  test('holds with the audit’s key and the log’s, and a later one leads on', async () => {
    const whole = await exported()
    expect(whole.chains[0]?.events.length).toBeGreaterThanOrEqual(3)
    expect(await verified(whole)).toEqual({ code: 0, failed: [] })
    await gateway.admin('POST', '/v1/admin/customers', { display_name: 'later', reason: 'later' })
    expect(await verified(await exported())).toEqual({ code: 0, failed: [] })
  })

  test('every edit of an export is found', async () => {
    const whole = await exported()
    const [chain] = whole.chains
    if (chain === undefined || chain.logged === null) throw new Error('no chain')
    const events = [...chain.events]
    const edits: readonly (readonly [string, Partial<Chain>])[] = [
      ['begin', { begins: { seq: 1, mac: events[0]?.mac ?? '', tombstone: null }, events: events.slice(1) }],
      ['chain', { events: events.filter((_, at) => at !== 1) }],
      ['chain', { events: [events[1], events[0], ...events.slice(2)].filter((one) => one !== undefined) }],
      [
        'chain',
        { events: events.map((one, at) => (at === 1 ? { ...one, facts: one.facts.replace('admin', 'viewer') } : one)) },
      ],
      ['chain', { events: events.map((one, at) => (at === 1 ? { ...one, mac: '00'.repeat(32) } : one)) }],
      ['chain', { mac: '11'.repeat(32) }],
      ['chain', { events: [...events, ...events.slice(-1)] }],
      // Cut short, and told so: only the log knows more.
      ['end', { events: events.slice(0, -1), seq: chain.seq - 1, mac: events.at(-2)?.mac ?? '' }],
      ['end', { logged: { ...chain.logged, mac: '22'.repeat(32) } }],
      ['log', { logged: { ...chain.logged, log_proof: '' } }],
      ['log', { ordinal: 7 }],
    ]
    for (const [found, edit] of edits) {
      const seen = await verified({ ...whole, chains: [{ ...chain, ...edit }, ...whole.chains.slice(1)] })
      expect([found, seen.code, seen.failed.includes(found)]).toEqual([found, 1, true])
    }
    expect((await verified({ ...whole, chains: [] })).failed).toEqual(['writers'])
  })

  test('exact exit codes: 1 without or with another key, 2 for the command line, 4 for what is no export', async () => {
    const whole = await exported()
    expect(await verified(whole, 'another key')).toMatchObject({ code: 1 })
    expect((await run(whole)).code).toBe(1)
    expect((await cli.run(['verify', 'audit', join(cli.home, 'absent.json')])).code).toBe(2)
    expect((await cli.run(['verify', 'audit', file(whole), '--log-key', 'x'])).code).toBe(2)
    expect((await run({ object: 'svc.receipt' })).code).toBe(4)
    expect((await cli.run(['verify', 'file', file(['nothing'])])).code).toBe(4)
    const bundle = { object: 'svc.bundle', files: [whole, whole] }
    expect((await cli.run(['verify', 'file', file(bundle), '--audit-key', auditKey])).code).toBe(0)
    expect((await cli.run(['verify', 'file', file({ object: 'svc.bundle', files: [bundle] })])).code).toBe(4)
  })
})
