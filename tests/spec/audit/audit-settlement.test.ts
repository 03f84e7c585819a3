import { expect, test } from 'bun:test'
import { newId } from '../../../src/ids.ts'
import { newToken } from '../../../src/secrets.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { everyRow } from '../../support/leaks/every-row.ts'
import { findAll } from '../../support/leaks/leak-markers.ts'
import { chainId, deploy, operatorKey, startAnvil } from '../../support/money/anvil.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

/**
 * Two admins and a batch that the contract never takes: it knows another operator. Nothing looks at the batch between
 * the calls, so each `submit` is one attempt.
 */
const tokens = { first: newToken('admin'), second: newToken('admin') }
const rpcKey = `mk-rpc-${crypto.randomUUID()}`
const attemptsMax = 3

interface Told {
  readonly status: number
  readonly requestId: string
  readonly body: Readonly<Record<string, unknown>>
}

async function tell(path: string, reason: string, approver: string | null = tokens.second): Promise<Told> {
  const response = await gateway.ask('POST', path, {
    json: { reason },
    headers: {
      'x-svc-admin-token': tokens.first,
      ...(approver === null ? {} : { 'x-svc-approver-token': approver }),
    },
  })
  return {
    status: response.status,
    requestId: response.headers.get('x-request-id') ?? '',
    body: await json(response),
  }
}

async function madeBatch(): Promise<string> {
  const customerId = await fundedCustomer(gateway.database, 1_000_000n)
  const nodeId = newId('node')
  await gateway.database
    .sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, payout_address)
    values (${nodeId}, ${customerId}, 'agent', 'n', 'public', 'public', 'gpu', ${`0x${'1'.repeat(40)}`})`
  await payFor(gateway.database, { customerId, nodeId, amountWei: 1_000n })
  const { batch } = (await tell('/v1/admin/payout-batches', 'month end')).body as { batch: { batch_id: string } }
  return batch.batch_id
}

const path = (verb: 'submit' | 'retry') => `/v1/admin/payout-batches/${batchId}/${verb}`
const anvil = await fixture(startAnvil())
const gateway = await fixture(
  startTestGateway({
    SVC_ADMIN_TOKENS: `${tokens.first},${tokens.second}`,
    SVC_REQUIRE_SECOND_APPROVER: 'true',
    SVC_CHAIN_RPC_URL: `${anvil.url}/?key=${rpcKey}`,
    SVC_CHAIN_ID: String(chainId),
    SVC_CHAIN_KEY: operatorKey,
    SVC_CHAIN_CONTRACT: await deploy(anvil, `0x${'7'.repeat(40)}`),
    SVC_PAYOUT_ANNOUNCE_MS: '0',
    SVC_SETTLEMENT_POLL_MS: '600000',
  }),
)
const batchId = await madeBatch()

const events = async ({ requestId }: Told) => [
  ...(await gateway.database.sql`
    select action, category, target_type, target_id, actor_type, actor_role, actor_hash_prefix, approver_hash_prefix,
      approval_policy, reason, confirmation, metadata
    from admin_approval_events where request_id = ${requestId}`),
]
const eventOf = (action: string, reason: string) => ({
  action,
  category: 'settlement',
  target_type: 'payout_batch',
  target_id: batchId,
  actor_type: 'admin_token',
  actor_role: 'admin',
  actor_hash_prefix: gateway.gateway.audit.pseudonym('actor', tokens.first),
  approver_hash_prefix: gateway.gateway.audit.pseudonym('actor', tokens.second),
  approval_policy: 'admin_approval_policy_v1',
  reason,
  confirmation: null,
  metadata: {},
})
const attempts = async () =>
  (
    await gateway.database.sql<{ attempts: number }[]>`select attempts from payout_batches where batch_id = ${batchId}`
  )[0]?.attempts
const asViewer = async (place: string) => json(await gateway.ask('GET', place, { as: 'viewer' }))

test('§16: submit of a payout batch leaves who, with whom, what and why; retry likewise', async () => {
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const told = await tell(path('submit'), `attempt ${attempt}`)
    expect([told.status, told.body.batch_id]).toEqual([200, batchId])
    expect(await events(told)).toEqual([eventOf('payout.batch.submit', `attempt ${attempt}`)])
    await waitUntil('the contract has refused it', async () => (await attempts()) === attempt)
  }
  // Held by now: only a retry goes on with it.
  const late = await tell(path('submit'), 'too late')
  expect([late.status, late.body.code, await events(late)]).toEqual([409, 'invalid_state', []])
  const retried = await tell(path('retry'), 'the operator is set')
  expect(retried).toMatchObject({ status: 200, body: { held: false } })
  expect(await events(retried)).toEqual([eventOf('payout.batch.retry', 'the operator is set')])
})

test.each(['submit', 'retry'] as const)('§16: %s by one person alone is refused and leaves no event', async (verb) => {
  const refusals = [
    await tell(path(verb), 'alone', null),
    await tell(path(verb), 'twice myself', tokens.first),
    await tell(path(verb), 'an operator', gateway.tokens.operator),
  ]
  expect(refusals.map(({ status, body }) => [status, body.code])).toEqual([
    [401, 'missing_credentials'],
    [403, 'insufficient_role'],
    [403, 'insufficient_role'],
  ])
  for (const told of refusals) expect(await events(told)).toEqual([])
})

test('§16: the policy counts both as high risk; their events stand in the list, newest first', async () => {
  const policy = (await asViewer('/v1/admin/approval-policy')) as { actions: Record<string, unknown>[] }
  const rows = policy.actions.filter(({ action }) => /^payout\.batch\.(submit|retry)$/.test(String(action)))
  expect(rows.map(({ action }) => action).sort()).toEqual(['payout.batch.retry', 'payout.batch.submit'])
  for (const row of rows) {
    // `high_risk_action_count` is of those that take an admin (§16).
    expect(row).toMatchObject({
      required_role: 'admin',
      reason_required: true,
      typed_confirmation: null,
      current_enforcement: 'role_token_reason_advisory_and_second_approver',
      production_requirement: 'second_approver',
    })
  }
  const listed = (await asViewer(`/v1/admin/approval-events?target_id=${batchId}`)) as { events: { action: string }[] }
  expect(listed.events.map(({ action }) => action)).toEqual([
    'payout.batch.retry',
    ...Array.from({ length: attemptsMax }, () => 'payout.batch.submit'),
    'payout.batch.create',
  ])
})

test('§16: no token, key or RPC address stands in an event, in a list or in the log', async () => {
  await gateway.gateway.audit.writer.flush()
  const secrets = { ...tokens, ...gateway.tokens, rpcKey, operatorKey: operatorKey.slice(2) }
  const audit = (await everyRow(gateway.database.url)).filter(({ table }) => /^(admin|audit)_/.test(table))
  expect(audit.some(({ row }) => row.includes(batchId))).toBe(true)
  const rows = audit.map(({ row }) => row)
  expect(findAll('a row of the audit', rows, secrets)).toEqual([])
  const list = JSON.stringify(await asViewer('/v1/admin/approval-events?limit=1000'))
  expect(findAll('the list', [list], secrets)).toEqual([])
  const log = gateway.logged().map((line) => JSON.stringify(line))
  expect(findAll('the log', log, secrets)).toEqual([])
})
