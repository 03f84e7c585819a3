import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { signedKey } from '../../support/nodes/job-node.ts'
import {
  createBody,
  type JobCustomer,
  jobCustomer,
  jobNode,
  jobsPath,
  postJob,
  storeKeys,
} from '../../support/pools/job-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(
  startTestGateway({
    SVC_POLL_INTERVAL_MS: '100',
    SVC_JOBS_OPEN_PER_CUSTOMER_MAX: '3',
    SVC_JOBS_OPEN_PER_NODE_MAX: '2',
  }),
)
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))

async function refused(body: object, as: JobCustomer = customer) {
  const before = await written()
  const response = await postJob(gateway, as, body)
  const { code, errors } = await json(response)
  expect(await written()).toEqual(before)
  return [response.status, code, ...(errors === undefined ? [] : [(errors as { pointer: string }[])[0]?.pointer])]
}

/** Every table that a create writes. */
const written = async () =>
  (
    await gateway.database.sql`
      select (select count(*) from private_jobs)::int as jobs, (select count(*) from envelope_replays)::int as replays,
        (select count(*) from webhook_deliveries)::int as webhooks`
  )[0]

const envelope = (change: object) => {
  const body = createBody(node)
  return { ...body, encrypted_request: { ...body.encrypted_request, ...change } }
}

test.each([
  ['version', { version: 'svc-private-transport-v2' }],
  ['algorithm', { algorithm: 'x' }],
  ['nonce', { nonce: 'AAAA' }],
  ['nonce', { nonce: 'gYKDhIWGh4iJiou+' }],
  ['ciphertext', { ciphertext: 'AAAA' }],
  ['ciphertext', { ciphertext: `${'A'.repeat(22)}B` }],
  ['key_id', { key_id: 'AAAA' }],
  ['aad_hash', { aad_hash: 'zz' }],
  ['client_public_key_x25519', { client_public_key_x25519: 'A'.repeat(43) }],
  ['client_public_key_x25519', { client_public_key_x25519: `AQ${'A'.repeat(41)}` }],
  ['client_public_key_x25519', { client_public_key_x25519: '7P___________________________________________38' }],
  ['client_public_key_x25519', { client_public_key_x25519: '4Ot6fDtBuK4WVuP68Z_EatoJjeucMrH9hmIFFl9JuAA' }],
] as const)('§10: envelope_invalid, before anything is written: %s %j', async (field, change) => {
  expect(await refused(envelope(change))).toEqual([400, 'envelope_invalid', `/encrypted_request/${field}`])
})

test('§10: envelope_aad_mismatch where the hash is of something else', async () => {
  expect(await refused(envelope({ aad_hash: '0'.repeat(64) }))).toEqual([400, 'envelope_aad_mismatch'])
  expect(await refused({ ...createBody(node, { jobId: 'a' }), job_id: 'b' })).toEqual([400, 'envelope_aad_mismatch'])
})

test('§1: the body is strict, and a mixture has a code of its own', async () => {
  expect((await refused({ ...createBody(node), priority: 1 })).slice(0, 2)).toEqual([400, 'invalid_request'])
  expect((await refused(envelope({ extra: 1 }))).slice(0, 2)).toEqual([400, 'invalid_request'])
  expect((await refused({ ...createBody(node), job_id: 'a.b' })).slice(0, 2)).toEqual([400, 'invalid_request'])
  expect(await refused({ ...createBody(node), svc: { mixture: {} } })).toEqual([400, 'mixture_unsupported_path'])
  expect(await refused({ ...createBody(node), mixture: {} })).toEqual([400, 'mixture_unsupported_path'])
})

test('§17: a body may have 10 MiB', async () => {
  const body = JSON.stringify(envelope({ ciphertext: 'A'.repeat(11 * 1024 * 1024) }))
  const response = await gateway.ask('POST', jobsPath, {
    body,
    headers: { ...customer.headers, 'content-type': 'application/json' },
  })
  expect([response.status, (await json(response)).code]).toEqual([413, 'payload_too_large'])
})

test('§3: unknown node, unknown model, and a model outside of the policy', async () => {
  const unsealed = (change: object) => {
    const { aad_hash: _, ...rest } = createBody(node).encrypted_request
    return { ...createBody(node), encrypted_request: rest, ...change }
  }
  expect(await refused(unsealed({ node_id: 'node_none' }))).toEqual([404, 'node_not_found'])
  expect(await refused(unsealed({ model_id: 'other' }))).toEqual([422, 'model_not_served'])
  const limited = await jobCustomer(gateway, { denied_models: ['job-*'] })
  const own = await jobNode(gateway, limited)
  expect(await refused(createBody(own), limited)).toEqual([403, 'model_not_allowed'])
  await own.stop()
})

test('§10: transport_key_unavailable: unknown, expired, not yet valid or revoked keys; retiring ones do', async () => {
  const [key] = node.keys
  const publicKey = new Uint8Array(Buffer.from(key?.public_key_x25519 ?? '', 'base64url'))
  const past = '2026-01-01T00:00:00.000Z'
  const future = '2100-01-01T00:00:00.000Z'
  for (const change of [{ state: 'revoked' }, { not_after: past }, { not_before: future }] as const) {
    await storeKeys(gateway, node, [signedKey(node.identity, publicKey, change)])
    expect(await refused(createBody(node))).toEqual([422, 'transport_key_unavailable'])
  }
  await storeKeys(gateway, node, [])
  expect(await refused(createBody(node))).toEqual([422, 'transport_key_unavailable'])
  await storeKeys(gateway, node, [signedKey(node.identity, publicKey, { state: 'retiring' })])
  expect((await postJob(gateway, customer, createBody(node))).status).toBe(202)
  await storeKeys(gateway, node, node.keys)
})

test('§3: a suspended account is refused, and its jobs can still be read', async () => {
  const suspended = await jobCustomer(gateway)
  const own = await jobNode(gateway, suspended)
  const { job_id } = await json(await postJob(gateway, suspended, createBody(own)))
  await gateway.ask('PATCH', `/v1/admin/customers/${suspended.customerId}`, {
    as: 'admin',
    json: { account_status: 'suspended' },
  })
  expect(await refused(createBody(own), suspended)).toEqual([403, 'account_suspended'])
  const read = await gateway.ask('GET', `${jobsPath}/${job_id}`, { headers: suspended.headers })
  expect(read.status).toBe(200)
  await own.stop()
})

test('§3: job_queue_full, for a node and for a customer, with Retry-After', async () => {
  const busy = await jobCustomer(gateway)
  const [one, other] = [await jobNode(gateway, busy), await jobNode(gateway, busy)]
  for (const full of [one, other]) full.turn({ kind: 'hold' }, { kind: 'hold' }, { kind: 'hold' })
  for (let i = 0; i < 2; i++) expect((await postJob(gateway, busy, createBody(one))).status).toBe(202)
  expect(await refused(createBody(one), busy)).toEqual([429, 'job_queue_full'])
  expect((await postJob(gateway, busy, createBody(other))).status).toBe(202)
  const body = createBody(other)
  const response = await postJob(gateway, busy, body)
  expect([response.status, response.headers.get('retry-after')]).toEqual([429, '5'])
  // The refused key was not used up.
  one.release()
  other.release()
  await waitUntil('there is room', async () => (await postJob(gateway, busy, body)).status === 202)
  other.release()
  await one.stop()
  await other.stop()
})
