import { expect, test } from 'bun:test'
import { newToken } from '../../src/secrets.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const tokens = { first: newToken('admin'), second: newToken('admin') }
const approving = { env: { SVC_APPROVER_TOKEN: tokens.second } }

const gateway = await fixture(
  startTestGateway({
    SVC_ADMIN_TOKENS: `${tokens.first},${tokens.second}`,
    SVC_REQUIRE_SECOND_APPROVER: 'true',
  }),
)
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: tokens.first }))
// No second person for this one.
const customerId = (await cli.json<{ customer_id: string }>('customers', 'create', 'A')).customer_id

/** The second admin of each event, oldest first. */
const approvers = async (action: string) =>
  [
    ...(await gateway.database.sql<{ approver: string | null }[]>`select approver_hash_prefix as approver
      from admin_approval_events where action = ${action} order by created_at`),
  ].map(({ approver }) => approver)
const second = () => gateway.gateway.audit.pseudonym('actor', tokens.second)

test('§16: every command whose action needs a second admin sends what SVC_APPROVER_TOKEN holds', async () => {
  const run = async (...args: string[]) => {
    const alone = await cli.run(args)
    expect([args.join(' '), alone.code, alone.err]).toEqual([
      args.join(' '),
      1,
      expect.stringContaining("Set SVC_APPROVER_TOKEN to the second admin's own token."),
    ])
    const ended = await cli.run([...args, '--json'], approving)
    expect([args.join(' '), ended.code, ended.err]).toEqual([args.join(' '), 0, ''])
    return JSON.parse(ended.out) as Record<string, unknown>
  }
  await run('credits', 'add', customerId, '5000')
  await run('credits', 'deduct', customerId, '1000')
  const { key_id: keyId } = await run('keys', 'create', 'k', '--customer', customerId)
  const rotated = await run('keys', 'rotate', String(keyId))
  await run('keys', 'revoke', String(rotated.key_id))
  await run('payouts', 'create')
  const actions = [
    'customer.credit.create',
    'customer.debit.create',
    'gateway_key.issue',
    'gateway_key.rotate',
    'gateway_key.revoke',
    'payout.batch.create',
  ]
  for (const action of actions) expect([action, await approvers(action)]).toEqual([action, [second()]])
})

test.each([[], ['--retry']])('payouts submit %p is asked for with it, too', async (...more) => {
  const args = ['payouts', 'submit', 'bat_unknown', ...more]
  const alone = await cli.run(args)
  expect(alone.err).toContain('missing_credentials')
  const ended = await cli.run(args, approving)
  expect(ended.err).toContain('batch_not_found')
})

test('a token that does not count is refused, and told apart', async () => {
  const add = (token: string) => cli.run(['credits', 'add', customerId, '1'], { env: { SVC_APPROVER_TOKEN: token } })
  const same = await add(tokens.first)
  expect([same.code, same.err]).toEqual([1, expect.stringContaining('insufficient_role')])
  const unknown = await add(newToken('admin'))
  expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('SVC_ADMIN_TOKEN or SVC_APPROVER_TOKEN')])
})

test('it goes with no other call', async () => {
  const sent: [string, string | null][] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      sent.push([`${request.method} ${new URL(request.url).pathname}`, request.headers.get('x-svc-approver-token')])
      return Response.json({})
    },
  })
  try {
    const env = { SVC_BASE_URL: `http://127.0.0.1:${server.port}`, SVC_APPROVER_TOKEN: tokens.second }
    await cli.run(['customers', 'create', 'B', '--json'], { env })
    await cli.run(['payouts', 'list', '--json'], { env })
    await cli.run(['credits', 'add', 'cus_1', '1', '--json'], { env })
    expect(sent).toEqual([
      ['POST /v1/admin/customers', null],
      ['GET /v1/admin/payout-batches', null],
      ['POST /v1/admin/customers/cus_1/credits', tokens.second],
    ])
  } finally {
    await server.stop(true)
  }
})
