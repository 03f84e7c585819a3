import { afterAll, expect, test } from 'bun:test'
import type { Customer } from '../../src/protocol/wire/admin/accounts.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import type { AdminModelList } from '../../src/protocol/wire/admin/catalogue.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

/** What another admin does while a command is between its look and its change. */
let meanwhile: () => Promise<unknown> = async () => {}
const sent: { readonly match: string | null; readonly none: string | null; readonly body: unknown }[] = []

/** Passes on what the command asks, and lets the other admin be first. */
const between = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: async (request) => {
    const { pathname, search } = new URL(request.url)
    const body = request.method === 'GET' ? null : await request.text()
    if (body !== null) {
      const { headers } = request
      sent.push({ match: headers.get('if-match'), none: headers.get('if-none-match'), body: JSON.parse(body) })
      await meanwhile()
    }
    // An agent of another test may look for model servers here before there is a gateway.
    if (gateway === undefined) return new Response(null, { status: 503 })
    return fetch(gateway.url + pathname + search, { method: request.method, headers: request.headers, body })
  },
})

afterAll(() => {
  between.stop(true)
})
const gateway = await fixture(startTestGateway())
const cli = await fixture(commandLine({ SVC_BASE_URL: between.url.origin, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
const customer = (await gateway.admin<Customer>('POST', '/v1/admin/customers', { display_name: 'first' })).customer_id
const server = { url: 'http://127.0.0.1:9', visibility: 'private', node_class: 'c', privacy_class: 'private' }
const body = { customer_id: customer, ...server }
const node = (await gateway.admin<Node>('POST', '/v1/admin/nodes', body)).node_id

const entry = async (id: string) =>
  (await gateway.admin<AdminModelList>('GET', '/v1/admin/models')).models.find((model) => model.id === id)
const edit = (body: object) => gateway.admin('PATCH', '/v1/admin/models', body)

async function refused(args: readonly string[], other: () => Promise<unknown>): Promise<void> {
  meanwhile = other
  const ended = await cli.run([...args, '--reason', 'r'])
  meanwhile = async () => {}
  expect([ended.code === 0, ended.out]).toEqual([false, ''])
  expect(ended.err).toContain('(precondition_failed)')
  expect(ended.err).toContain('Nothing was changed. Look at what it is now, and repeat the command.')
}

test('§23: models set and alias send what changes, and change no entry that somebody else has changed or made', async () => {
  await refused(['models', 'set', 'org/new', '--name', 'Mine'], () => edit({ id: 'org/new', name: 'Theirs' }))
  expect(await entry('org/new')).toMatchObject({ name: 'Theirs', description: null })
  const seen = (await entry('org/new'))?.etag ?? ''
  sent.length = 0
  const price = () => edit({ id: 'org/new', prompt_token_price_wei: '5' })
  await refused(['models', 'set', 'org/new', '--prompt-price-wei', '6'], price)
  await refused(['models', 'alias', 'org/new', 'a'], () => edit({ id: 'org/new', aliases: ['b'] }))
  expect(sent.map(({ body }) => body)).toEqual([
    { id: 'org/new', prompt_token_price_wei: '6', reason: 'r' },
    { id: 'org/new', aliases: ['a'], reason: 'r' },
  ])
  expect(sent[0]).toMatchObject({ match: seen, none: null })
  expect(await cli.json('models', 'set', 'org/new', '--description', 'D')).toMatchObject({
    name: 'Theirs',
    aliases: ['b'],
    prompt_token_price_wei: '5',
    description: 'D',
  })
  expect(await cli.json('models', 'set', 'org/newest', '--name', 'N')).toMatchObject({ name: 'N' })
  expect(sent.at(-1)).toMatchObject({ match: null, none: '*' })
})

test('§23: customers update sends the fields that change, also those of the policy', async () => {
  const path = `/v1/admin/customers/${customer}`
  const other = () => gateway.admin('PATCH', path, { gateway_policy_changes: { max_concurrency: 2 } })
  sent.length = 0
  await refused(['customers', 'update', customer, '--daily-token-quota', '5'], other)
  expect(sent).toEqual([
    {
      match: expect.stringMatching(/^"/),
      none: null,
      body: { gateway_policy_changes: { daily_token_quota: 5 }, reason: 'r' },
    },
  ])
  const changed = await cli.json('customers', 'update', customer, '--daily-token-quota', '5', '--name', 'second')
  expect(changed).toMatchObject({
    display_name: 'second',
    gateway_policy: { max_concurrency: 2, daily_token_quota: 5 },
  })
  const whole = ['customers', 'update', customer, '--policy', '{"rate_limit_rpm":4}', '--daily-token-quota', '6']
  expect(await cli.json<Customer>(...whole)).toMatchObject({
    gateway_policy: { rate_limit_rpm: 4, daily_token_quota: 6 },
  })
})

test('§23: nodes set changes no node that somebody else has changed', async () => {
  const path = `/v1/admin/nodes/${node}`
  sent.length = 0
  await refused(['nodes', 'set', node, '--rank', '3'], () => gateway.admin('PATCH', path, { rank: 7 }))
  expect(sent).toEqual([{ match: expect.stringMatching(/^"/), none: null, body: { rank: 3, reason: 'r' } }])
  expect((await gateway.admin<Node>('GET', path)).rank).toBe(7)
  expect(await cli.json('nodes', 'set', node, '--name', 'x')).toMatchObject({ name: 'x', rank: 7 })
})
