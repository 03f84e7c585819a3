import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AuditChain } from '../../src/protocol/wire/admin/audit.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { commandLine } from './command-line.ts'

const gateway = await fixture(startTestGateway())
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
await gateway.customer()

const make = (name: string) => gateway.admin('POST', '/v1/admin/customers', { display_name: name, reason: name })

test('audit tail names who has no role of the administration by what they are', async () => {
  const { sql } = gateway.database
  await sql`insert into admin_command_events (event_id, action, actor_type, actor_role, reason, metadata, created_at,
      writer_id, seq, mac, command_id)
    values ('evt_of_a_customer', 'job.create', 'customer', 'viewer', null, '{}', now(), 'wrk_test', 1, '\\x00', 'cmd_1')`
  await fetch(`${gateway.url}/v1/admin/nodes`)
  const { out } = await cli.run(['audit', 'tail', '--once', '--lines', '1000'])
  await sql`delete from admin_command_events where event_id = 'evt_of_a_customer'`
  expect(out).toMatch(/command +customer +job\.create/)
  expect(out).toMatch(/access +unauthenticated +401 +GET \/v1\/admin\/nodes/)
})

test('audit tail: what there is, in the order it happened, by kind; then what comes', async () => {
  await make('for the tail')
  const once = await cli.run(['audit', 'tail', '--once', '--only', 'approval', '--lines', '2'])
  expect(once.code).toBe(0)
  const [, last] = once.out.trim().split('\n')
  expect(last).toMatch(/approval +admin \w{12} +customer\.create +customer cus_\w+ +for the tail$/)
  const all = await cli.run(['audit', 'tail', '--once', '--lines', '1000', '--json'])
  const events = all.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; created_at: string; path_template?: string })
  expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(['access', 'approval']))
  expect(events.map(({ created_at }) => created_at)).toEqual(events.map(({ created_at }) => created_at).sort())
  expect(events.filter(({ path_template }) => path_template?.endsWith('-events'))).toEqual([])
  const following = cli.start(['audit', 'tail', '--lines', '0', '--json'])
  let seen = ''
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const bytes of following.stdout) seen += decoder.decode(bytes, { stream: true })
  })()
  // It may still be looking at what there was: events go on until one is shown.
  await waitFor('a line', async () => {
    await make('while it follows')
    await lasts(200)
    return seen.includes('while it follows')
  })
  following.kill('SIGINT')
  expect(await following.exited).toBe(0)
  await reading
  const ids = seen
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { event_id: string }).event_id)
  expect(new Set(ids).size).toBe(ids.length)
})

test('audit chain: holds, keeps its heads, and finds what was cut off since', async () => {
  const file = join(cli.home, 'heads.json')
  const saved = await cli.run(['audit', 'chain', '--save', file])
  expect([saved.code, /Chains +hold/.test(saved.out)]).toEqual([0, true])
  const kept = JSON.parse(readFileSync(file, 'utf8')) as AuditChain
  expect(kept.heads).toHaveLength(1)
  await make('later')
  expect((await cli.run(['audit', 'chain', '--against', file])).code).toBe(0)
  // Whoever has the key as well: the chain holds, and still the kept heads tell.
  const further = { ...kept, heads: kept.heads.map((head) => ({ ...head, seq: head.seq + 1_000 })) }
  const gone = { ...kept, heads: kept.heads.map((head) => ({ ...head, writer_id: 'wrk_gone' })) }
  for (const [other, what] of [
    [further, 'once ended at'],
    [gone, 'is missing'],
  ] as const) {
    writeFileSync(file, JSON.stringify(other))
    const compared = await cli.run(['audit', 'chain', '--against', file])
    expect([compared.code, compared.out.includes(what)]).toEqual([1, true])
  }
  writeFileSync(file, 'nothing')
  expect((await cli.run(['audit', 'chain', '--against', file])).code).not.toBe(0)
  await gateway.database.sql`update admin_approval_events set reason = 'another' where reason = 'later'`
  const broken = await cli.run(['audit', 'chain'])
  expect([broken.code, broken.out.includes('DO NOT HOLD'), broken.out.includes('event_altered')]).toEqual([
    1,
    true,
    true,
  ])
})
