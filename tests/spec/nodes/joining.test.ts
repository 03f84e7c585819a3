import { beforeEach, expect, test } from 'bun:test'
import { verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { joinCommitment, joinedMessage } from '../../../src/protocol/signing/join-words.ts'
import type { JoinBegun, JoinRevealed, JoinState, WaitingJoinList } from '../../../src/protocol/wire/nodes/join.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { newIdentity, transportKeyOf } from '../../support/nodes/enrolling.ts'
import { type Joiner, newJoiner } from '../../support/nodes/joining.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const settings = {
  SVC_AUTH_FAILURES_PER_MINUTE: '10000',
  SVC_PUBLIC_RPM_PER_IP: '100000',
  SVC_PUBLIC_URL: 'https://gateway.example',
  SVC_TRUSTED_PROXIES: '127.0.0.1',
}
const gateway = await fixture(startTestGateway(settings))
const { id: customerId } = await newAccount(gateway)

beforeEach(() => gateway.database.sql`delete from node_joins`)

const path = '/v1/node-agent/join'
/** `from`: the address of the computer, as the proxy before the gateway tells it. */
const begin = (body: object, from = '192.0.2.1') =>
  gateway.ask('POST', path, { json: body, headers: { 'x-forwarded-for': from } })
const reveal = (joinId: string, nonce: string) => gateway.ask('POST', `${path}/${joinId}`, { json: { nonce } })
const state = async (joinId: string) => (await (await gateway.ask('GET', `${path}/${joinId}`)).json()) as JoinState
const listed = async (at = gateway) =>
  ((await (await at.ask('GET', '/v1/admin/joins', { as: 'operator' })).json()) as WaitingJoinList).joins
const choice = (words: string, more: object = {}) => ({
  words,
  customer_id: customerId,
  visibility: 'private',
  node_class: 'standard',
  privacy_class: 'private',
  ...more,
})
const confirm = (joinId: string, body: object, as: 'admin' | 'operator' | 'viewer' = 'operator', at = gateway) =>
  at.ask('POST', `/v1/admin/joins/${joinId}/confirm`, { as, json: body })
const refusalOf = async (response: Response) => [response.status, (await json(response)).code]

interface Met {
  readonly joiner: Joiner
  readonly begun: JoinBegun
  readonly revealed: JoinRevealed
  readonly words: string
}
async function met(joiner = newJoiner(), from?: string): Promise<Met> {
  const first = await begin(joiner.request(), from)
  expect(first.status).toBe(201)
  const begun = (await first.json()) as JoinBegun
  const second = await reveal(begun.join_id, joiner.nonce)
  expect(second.status).toBe(200)
  const revealed = (await second.json()) as JoinRevealed
  const words = joiner.words({ publicKey: begun.public_key_ed25519, nonce: revealed.nonce })
  return { joiner, begun, revealed, words }
}

test('§39: both sides commit, reveal and have the same words; an operator makes a node of it, and the gateway signs what it is', async () => {
  const { joiner, begun, revealed, words } = await met()
  expect(begun.join_id).toMatch(/^join_[0-9A-Z]{26}$/)
  const theirs = { publicKey: begun.public_key_ed25519, nonce: revealed.nonce }
  expect(joinCommitment('gateway', theirs)).toBe(begun.commitment)
  const [row, ...others] = await listed()
  expect(others).toEqual([])
  expect(row).toMatchObject({ join_id: begun.join_id, name: 'attic', words })
  expect(Date.parse(row?.expires_at ?? '') - Date.parse(row?.created_at ?? '')).toBe(900_000)
  expect(words.split(' ').length).toBe(6)
  expect(await state(begun.join_id)).toEqual({ state: 'waiting' })

  const answer = await confirm(begun.join_id, choice(words.toUpperCase().replaceAll(' ', '-'), { name: 'shed' }))
  const node = await json(answer)
  expect(answer.status).toBe(201)
  expect(node).toMatchObject({ kind: 'agent', name: 'shed', visibility: 'private', state: 'enrolled' })
  expect(node.identity_fingerprint).toBe(row?.identity_fingerprint as string)
  const { enrollment, signature_ed25519: signature, ...rest } = await state(begun.join_id)
  expect(rest).toEqual({ state: 'confirmed' })
  expect(enrollment).toMatchObject({
    status: 'enrolled',
    node_id: node.node_id,
    tunnel_url: 'wss://gateway.example/v1/node-agent/tunnel',
    endpoint_url: null,
    router_public_keys: [{ kid: begun.kid, public_key_ed25519: begun.public_key_ed25519 }],
  })
  const router = verifyKey(begun.public_key_ed25519)
  expect(router?.verify(joinedMessage(begun.join_id, enrollment ?? {}), signature ?? '')).toBe(true)
  expect(router?.verify(joinedMessage('join_other', enrollment ?? {}), signature ?? '')).toBe(false)
  expect(await listed()).toEqual([])

  const events = await gateway.ask('GET', '/v1/admin/approval-events?action=node.join.confirm', { as: 'viewer' })
  expect(JSON.stringify(await json(events))).toContain(String(node.node_id))
  // The same computer may not join twice.
  expect(await refusalOf(await begin(newJoiner(joiner.identity).request()))).toEqual([409, 'invalid_state'])
  expect(await refusalOf(await confirm(begun.join_id, choice(words)))).toEqual([404, 'join_not_found'])
})

test('§39: nothing is shown before the nonce is revealed, and only the committed nonce is taken, however many are tried', async () => {
  const joiner = newJoiner()
  const begun = (await (await begin(joiner.request())).json()) as JoinBegun
  expect(await listed()).toEqual([])
  expect(await refusalOf(await confirm(begun.join_id, choice('a b c d e f')))).toEqual([404, 'join_not_found'])
  for (let tries = 0; tries < 20; tries++) {
    expect(await refusalOf(await reveal(begun.join_id, newJoiner().nonce))).toEqual([400, 'invalid_request'])
  }
  const good = (await (await reveal(begun.join_id, joiner.nonce)).json()) as JoinRevealed
  // An answer that got lost is asked for again.
  expect((await (await reveal(begun.join_id, joiner.nonce)).json()) as JoinRevealed).toEqual(good)
  expect(await refusalOf(await reveal(begun.join_id, newJoiner().nonce))).toEqual([400, 'invalid_request'])
  expect(await refusalOf(await reveal(`join_${'0'.repeat(26)}`, joiner.nonce))).toEqual([404, 'join_not_found'])
  expect(await refusalOf(await reveal('anything', joiner.nonce))).toEqual([404, 'join_not_found'])
})

test('§39: whatever is wrong with a request is refused by its name, and nobody waits', async () => {
  const joiner = newJoiner()
  const other = newIdentity()
  const late = Math.floor(Date.now() / 1_000) - 301
  const cases: readonly (readonly [string, object, number, string])[] = [
    ['another protocol version', joiner.request({ protocol_version: 2 }), 400, 'invalid_request'],
    ['an unknown member', joiner.request({ endpoint_url: 'https://x' }), 400, 'invalid_request'],
    ['a name of two lines', joiner.request({ name: 'a\nb' }), 400, 'invalid_request'],
    ['a commitment of another length', joiner.request({ commitment: 'A' }), 400, 'invalid_request'],
    ['a changed commitment', joiner.request({}, { commitment: 'A'.repeat(43) }), 401, 'signature_invalid'],
    ['the key of another', joiner.request({}, { public_key_ed25519: other.publicKey }), 401, 'signature_invalid'],
    [
      'the transport key of another',
      joiner.request({ transport_keys: [transportKeyOf(other)] }),
      400,
      'invalid_request',
    ],
    ['an old one', joiner.request({ timestamp: late }), 401, 'signature_expired'],
    ['a long one', joiner.request({ name: 'x'.repeat(9_000) }), 413, 'payload_too_large'],
  ]
  for (const [what, body, status, code] of cases) {
    expect([what, ...(await refusalOf(await begin(body)))]).toEqual([what, status, code])
  }
  const [count] = await gateway.database.sql`select count(*)::int as rows from node_joins`
  expect(count?.rows).toBe(0)
})

test('§39: a request that was heard on the way is worth nothing a second time', async () => {
  const joiner = newJoiner()
  const request = joiner.request()
  const begun = (await (await begin(request)).json()) as JoinBegun
  expect(await refusalOf(await begin(request))).toEqual([401, 'nonce_reused'])
  // The replay took nothing from the one that waits.
  expect((await reveal(begun.join_id, joiner.nonce)).status).toBe(200)
  expect((await gateway.ask('DELETE', `${path}/${begun.join_id}`)).status).toBe(204)
  expect(await refusalOf(await begin(request))).toEqual([401, 'nonce_reused'])
  expect(await refusalOf(await gateway.ask('GET', `${path}/${begun.join_id}`))).toEqual([404, 'join_not_found'])
  expect(await refusalOf(await gateway.ask('DELETE', `${path}/${begun.join_id}`))).toEqual([404, 'join_not_found'])
})

test('§39: a computer that asks anew has one place in the line, with new words', async () => {
  const first = await met()
  const second = await met(newJoiner(first.joiner.identity))
  expect((await listed()).map(({ words }) => words)).toEqual([second.words])
  expect(second.words).not.toBe(first.words)
  expect(await refusalOf(await confirm(first.begun.join_id, choice(first.words)))).toEqual([404, 'join_not_found'])
})

test('§39: five wait from one address and fifty in all; those who never reveal or never are confirmed make room', async () => {
  const ids: string[] = []
  for (let at = 0; at < 5; at++) ids.push((await met()).begun.join_id)
  const sixth = await begin(newJoiner().request())
  expect(sixth.headers.get('retry-after')).toBe('60')
  expect(await refusalOf(sixth)).toEqual([429, 'joins_full'])
  for (let at = 5; at < 50; at++) {
    expect((await begin(newJoiner().request(), `192.0.2.${10 + Math.floor(at / 5)}`)).status).toBe(201)
  }
  expect(await refusalOf(await begin(newJoiner().request(), '192.0.2.99'))).toEqual([429, 'joins_full'])
  // By the database's clock: those who have not revealed are gone after a minute, those who wait after a quarter of an hour.
  await gateway.database
    .sql`update node_joins set created_at = created_at - interval '61 s', expires_at = expires_at - interval '61 s'`
  expect((await met(newJoiner(), '192.0.2.99')).words).not.toBe('')
  expect((await listed()).length).toBe(6)
  expect(await refusalOf(await begin(newJoiner().request()))).toEqual([429, 'joins_full'])
  await gateway.database.sql`update node_joins set expires_at = expires_at - interval '15 min'`
  expect(await listed()).toEqual([])
  expect(await state(ids[0] ?? '')).toEqual({ state: 'expired' })
  expect(await refusalOf(await confirm(ids[0] ?? '', choice('x')))).toEqual([404, 'join_not_found'])
  expect((await begin(newJoiner().request())).status).toBe(201)
})

test('§39: who asks again and again fills no table: an address may ask 200 times in half an hour, all together 2,000 times', async () => {
  const { begun } = await met()
  const asked = (times: number, hash: string) => gateway.database.sql`
    insert into node_joins (join_id, state, public_key, transport_keys, commitment, router_kid, nonce, address_hash, expires_at)
    select ${hash} || at, 'withdrawn', public_key, transport_keys, ${hash} || at, router_kid, nonce,
      coalesce(nullif(${hash}, ''), address_hash), expires_at
    from node_joins, generate_series(1, ${times}) at where join_id = ${begun.join_id}`
  await asked(198, '')
  expect((await begin(newJoiner().request())).status).toBe(201)
  const again = await begin(newJoiner().request())
  expect(again.headers.get('retry-after')).toBe('60')
  expect(await refusalOf(again)).toEqual([429, 'joins_full'])
  await asked(1_799, 'others')
  expect((await begin(newJoiner().request(), '192.0.2.2')).status).toBe(201)
  expect(await refusalOf(await begin(newJoiner().request(), '192.0.2.3'))).toEqual([429, 'joins_full'])
})

test('§39: of a computer that asked to join nothing is kept for longer than half an hour, also where none asks anew', async () => {
  const [old, waiting] = [await met(), await met(newJoiner(), '192.0.2.2')]
  const kept = async () =>
    (await gateway.database.sql`select join_id from node_joins`).map((row) => String(row.join_id))
  await gateway.database
    .sql`update node_joins set expires_at = expires_at - interval '29 min' where join_id = ${old.begun.join_id}`
  expect(await kept()).toContain(old.begun.join_id)
  await using _second = await scoped(startTestGateway(settings, undefined, { beside: gateway }))
  await waitUntil('the sweep', async () => !(await kept()).includes(old.begun.join_id))
  expect(await kept()).toEqual([waiting.begun.join_id])
})

test('§39: other words confirm nothing, and a role that may not, neither', async () => {
  const { begun, words } = await met()
  const other = await met()
  expect(await refusalOf(await confirm(begun.join_id, choice(other.words)))).toEqual([400, 'confirmation_required'])
  expect(await refusalOf(await confirm(begun.join_id, choice('')))).toEqual([400, 'confirmation_required'])
  expect(await refusalOf(await confirm(begun.join_id, choice(words), 'viewer'))).toEqual([403, 'insufficient_role'])
  const read = await gateway.ask('GET', '/v1/admin/joins', { as: 'viewer' })
  expect(await refusalOf(read)).toEqual([403, 'insufficient_role'])
  const stranger = await confirm(begun.join_id, choice(words, { customer_id: 'cus_none' }))
  expect(await refusalOf(stranger)).toEqual([404, 'customer_not_found'])
  expect(await state(begun.join_id)).toEqual({ state: 'waiting' })
  const refuse = (as: 'operator' | 'viewer') =>
    gateway.ask('POST', `/v1/admin/joins/${begun.join_id}/refuse`, { as, json: { reason: 'not mine' } })
  expect(await refusalOf(await refuse('viewer'))).toEqual([403, 'insufficient_role'])
  expect((await refuse('operator')).status).toBe(204)
  expect(await state(begun.join_id)).toEqual({ state: 'refused' })
  expect(await refusalOf(await confirm(begun.join_id, choice(words)))).toEqual([404, 'join_not_found'])
  const nodes = await json(await gateway.ask('GET', '/v1/admin/nodes', { as: 'viewer' }))
  expect(JSON.stringify(nodes)).not.toContain(begun.join_id)
})

test('§39: two computers never show the same words: the later one is refused and asks anew', async () => {
  const first = await met()
  const second = newJoiner()
  const begun = (await (await begin(second.request())).json()) as JoinBegun
  const [row] = await gateway.database.sql`select nonce from node_joins where join_id = ${begun.join_id}`
  const words = second.words({ publicKey: begun.public_key_ed25519, nonce: String(row?.nonce) })
  await gateway.database.sql`update node_joins set words = ${words} where join_id = ${first.begun.join_id}`
  expect(await refusalOf(await reveal(begun.join_id, second.nonce))).toEqual([409, 'invalid_state'])
  expect((await listed()).map(({ join_id }) => join_id)).toEqual([first.begun.join_id])
  await met(newJoiner(second.identity))
  expect((await listed()).length).toBe(2)
})

test('§39: of two operators at once one confirms; no address and no nonce leaves by a list', async () => {
  const { begun, words, joiner } = await met()
  expect(JSON.stringify(await listed())).not.toContain(joiner.nonce)
  expect(JSON.stringify(await listed())).not.toContain('192.0.2')
  const both = await Promise.all([confirm(begun.join_id, choice(words)), confirm(begun.join_id, choice(words))])
  expect(both.map(({ status }) => status).toSorted()).toEqual([201, 404])
  const text = JSON.stringify(gateway.logged())
  for (const secret of [words, joiner.nonce, '192.0.2.1']) expect(text).not.toContain(secret)
})

test('§26, §39: join at one gateway of a pool, confirm at the other', async () => {
  await using second = await scoped(startTestGateway(settings, undefined, { beside: gateway }))
  const { begun, words } = await met()
  expect((await listed(second)).map((row) => row.words)).toEqual([words])
  expect((await confirm(begun.join_id, choice(words), 'operator', second)).status).toBe(201)
  const first = await state(begun.join_id)
  const other = (await (await second.ask('GET', `${path}/${begun.join_id}`)).json()) as JoinState
  expect(first.state).toBe('confirmed')
  expect(other.enrollment?.node_id).toBe(first.enrollment?.node_id as string)
})
