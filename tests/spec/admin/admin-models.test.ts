import { expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newAccount, newKey } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const server = await fixture(startFakeNode({ models: ['Llama-3.1-8B-Q4.gguf'] }))
const { id: customer_id } = await newAccount(gateway)
const key = await newKey(gateway, customer_id)
const node = { customer_id, url: server.url, visibility: 'private', node_class: 'gpu', privacy_class: 'private' }
await gateway.ask('POST', '/v1/admin/nodes', { as: 'operator', json: node })
await waitUntil('the node is ready', () => gateway.gateway.router.counts().nodes.ready === 1)

const put = (json_: object) => gateway.ask('PUT', '/v1/admin/models', { as: 'operator', json: json_ })
const listed = async () =>
  (await json(await gateway.ask('GET', '/v1/admin/models', { as: 'viewer' }))).models as Record<string, unknown>[]
const names = async () => {
  const response = await gateway.ask('GET', '/v1/api/models', { headers: { authorization: `Bearer ${key}` } })
  return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
}
const nothing = {
  aliases: [],
  name: null,
  description: null,
  input_modalities: null,
  output_modalities: null,
  serves: null,
  context_length: null,
  max_output_length: null,
  prompt_token_price_wei: null,
  completion_token_price_wei: null,
  usd_prices: null,
}
const written = { updated_at: expect.any(String), etag: expect.stringMatching(/^"[0-9a-f-]{36}"$/) }

test('§23: the list holds entries and what nodes serve without one', async () => {
  expect(await listed()).toEqual([
    {
      id: 'Llama-3.1-8B-Q4.gguf',
      ...nothing,
      updated_at: null,
      etag: null,
      in_catalogue: false,
      nodes: 1,
      nodes_ready: 1,
      // What the node says of itself.
      served_context_length: 8_192,
    },
  ])
})

test('§9: an alias pools what nodes name differently; the entry is stored whole', async () => {
  const entry = {
    id: 'meta/llama-3.1-8b',
    aliases: ['Llama-3.1-8B-Q4.gguf', 'llama:8b'],
    name: 'Meta: Llama 3.1 8B',
    description: 'A small model.',
    input_modalities: ['text'],
    output_modalities: ['text'],
    serves: ['chat', 'embedding'],
    context_length: 131_072,
    max_output_length: 4_096,
    prompt_token_price_wei: '0',
    completion_token_price_wei: '115792089237316195423570985008687907853269984665640564039457584007913129639935',
    usd_prices: { prompt: '0.0000001' },
  }
  const response = await put({ ...entry, reason: 'pooling' })
  expect(response.status).toBe(200)
  expect(await json(response)).toEqual({ ...entry, ...written })
  await waitUntil('clients see the id', async () => (await names())[0] === entry.id)
  expect(await listed()).toMatchObject([
    // The entry cannot make it longer than the node says.
    {
      id: entry.id,
      in_catalogue: true,
      nodes: 1,
      nodes_ready: 1,
      context_length: 131_072,
      served_context_length: 8_192,
    },
  ])
})

test('§23: PUT replaces: what is left out returns to its default', async () => {
  await put({ id: 'x/y', name: 'X', context_length: 5 })
  expect(await json(await put({ id: 'x/y' }))).toEqual({ id: 'x/y', ...nothing, ...written })
})

test('§23: a name belongs to one entry', async () => {
  await put({ id: 'one', aliases: ['uno'] })
  for (const wrong of [{ id: 'uno' }, { id: 'two', aliases: ['uno'] }, { id: 'two', aliases: ['one'] }]) {
    const response = await put(wrong)
    expect([wrong, response.status, (await json(response)).code]).toEqual([wrong, 400, 'invalid_request'])
  }
})

test('§1: strict bodies, wei up to 2^256 - 1, ids as nodes may report them', async () => {
  for (const wrong of [
    {},
    { id: '/etc/passwd' },
    { id: 'm', alias: ['x'] },
    { id: 'm', prompt_token_price_wei: 1 },
    { id: 'm', prompt_token_price_wei: '01' },
    {
      id: 'm',
      prompt_token_price_wei: '115792089237316195423570985008687907853269984665640564039457584007913129639936',
    },
    { id: 'm', usd_prices: { prompt: '1e-7' } },
    { id: 'm', usd_prices: { training: '1' } },
    { id: 'm', input_modalities: ['smell'] },
    { id: 'm', context_length: 0 },
  ]) {
    const response = await put(wrong)
    expect([wrong, response.status, (await json(response)).code]).toEqual([wrong, 400, 'invalid_request'])
  }
})

test('§23: DELETE takes the id in the body and answers 204; the nodes keep their own names', async () => {
  const remove = (id: string) => gateway.ask('DELETE', '/v1/admin/models', { as: 'operator', json: { id } })
  expect((await remove('meta/llama-3.1-8b')).status).toBe(204)
  await waitUntil('the own name is back', async () => (await names())[0] === 'Llama-3.1-8B-Q4.gguf')
  const again = await remove('meta/llama-3.1-8b')
  expect([again.status, (await json(again)).code]).toEqual([404, 'model_entry_not_found'])
})
