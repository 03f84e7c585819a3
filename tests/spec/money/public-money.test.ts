import { describe, expect, test } from 'bun:test'
import { SimpleMerkleTree } from '@openzeppelin/merkle-tree'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { settledEventTopic } from '../../../src/protocol/receipts/settlement-contract.ts'
import type { PublicSettlement } from '../../../src/protocol/wire/money/money.ts'
import type { Pricing } from '../../../src/protocol/wire/money/pricing.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'

const prices = {
  SVC_PRIVATE_INFERENCE_BASE_PRICE_WEI: '1',
  SVC_PRIVATE_INFERENCE_PROMPT_TOKEN_PRICE_WEI: '2',
  SVC_PRIVATE_INFERENCE_COMPLETION_TOKEN_PRICE_WEI: '3',
  SVC_PRIVATE_INFERENCE_MIN_PRICE_WEI: '4',
  SVC_PRIVATE_INFERENCE_MAX_PRICE_WEI: '5',
  SVC_PAYOUT_BATCH_MIN_WEI: '6',
  SVC_PROTOCOL_FEE_BPS: '250',
}

const gateway = await fixture(
  startTestGateway({ env: { ...prices, SVC_MARKETPLACE_SEGMENT: 'openrouter' } }),
  ({ database }) => expectBooksBalance(database.db),
)
const customer = await gateway.customer()
const nodes = await fixture(
  startFakeNodes(2, (at) => ({
    models: at === 0 ? ['meta/llama-8b', 'plain'] : ['private-one'],
    contextLength: 8_192,
  })),
)
const owner = await gateway.customer()
const nodeId = await gateway.node(nodeAt(nodes, 0).url, {
  customerId: owner.customerId,
  visibility: 'public',
  privacyClass: 'public',
})
await gateway.node(nodeAt(nodes, 1).url, { customerId: owner.customerId })
await gateway.admin('PUT', '/v1/admin/models', {
  id: 'meta/llama-8b',
  name: 'Llama 8B',
  description: 'Eight billion',
  input_modalities: ['text', 'image'],
  max_output_length: 4_096,
  usd_prices: { prompt: '0.00000015', completion: '0.0000006' },
})
await gateway.admin('POST', `/v1/admin/customers/${customer.customerId}/credits`, { amount_wei: '1000000' })
const pay = (amountWei: bigint, held = false) =>
  payFor(gateway.database, { customerId: customer.customerId, nodeId, amountWei, held })
const hashes: string[] = [await pay(100n), await pay(200n), await pay(300n), await pay(400n, true)]

const get = (path: string, headers: Readonly<Record<string, string>> = {}) => fetch(gateway.url + path, { headers })
const body = async (path: string) => (await (await get(path)).json()) as Record<string, never>
const instants = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

test('endpoint 5: pricing, every field', async () => {
  const response = await get('/v1/api/pricing')
  expect(response.headers.get('cache-control')).toBe('public, max-age=60')
  expect(response.headers.get('access-control-allow-origin')).toBe('*')
  const pricing = (await response.json()) as Static<typeof Pricing>
  expect(pricing).toEqual({
    object: 'svc.pricing',
    generated_at: expect.stringMatching(instants),
    currency: 'wei',
    max_price_field: 'max_price_wei',
    private_inference: {
      enabled: pricing.private_inference.enabled,
      policy_version: 'private_inference_v1',
      quote: {
        unit: 'request',
        base_price_wei: '1',
        prompt_token_price_wei: '2',
        completion_token_price_wei: '3',
        min_price_wei: '4',
        max_price_wei: '5',
      },
      billing_policy: {
        own_machine: 'free',
        reserve_on: 'dispatch',
        settle_on: 'completed',
        release_on: ['failed', 'expired', 'cancelled'],
      },
      node_payout: { node_share_bps: 9750, protocol_fee_bps: 250, payout_currency: 'wei', min_batch_wei: '6' },
    },
  })
})

describe('endpoint 9: public settlement', () => {
  test('§14: every field where no chain is configured; billed work only', async () => {
    const response = await get('/v1/public/settlement')
    expect(response.headers.get('cache-control')).toBe('public, max-age=15')
    const seen = (await response.json()) as Static<typeof PublicSettlement>
    const accepted = hashes.slice(0, 3)
    expect(seen).toEqual({
      protocol: {
        name: 'svc',
        version: '1',
        receipt_version: 'svc-receipt-v1',
        receipt_hash: 'keccak256-jcs',
        merkle: 'oz-standard-v1',
        leaf_encoding: ['bytes32', 'address', 'uint256'],
        node_share_bps: 9750,
        protocol_fee_bps: 250,
      },
      payout_settlement: {
        network_name: '',
        chain_id: '',
        rpc_url: '',
        explorer_url: '',
        contract_address: '',
        event_topic: '',
      },
      summary: {
        accepted_receipts: 3,
        pending_receipts: 3,
        pending_root: SimpleMerkleTree.of(accepted).root,
        latest_receipt_at: expect.stringMatching(instants),
        settlement_ready: false,
        payouts: {
          total_payouts: 4,
          pending_payouts: 4,
          batched_payouts: 0,
          submitting_payouts: 0,
          submitted_payouts: 0,
          finalized_payouts: 0,
          latest_payout_at: expect.stringMatching(instants),
          latest_finalized_payout_at: null,
          by_kind: [
            {
              kind: 'hosted_chat',
              total_payouts: 4,
              pending_payouts: 4,
              finalized_payouts: 0,
              latest_payout_at: expect.stringMatching(instants),
            },
          ],
        },
        payout_batches: {
          total_batches: 0,
          created_batches: 0,
          submitting_batches: 0,
          submitted_batches: 0,
          completed_batches: 0,
          latest_batch_at: null,
          latest_finalized_batch_at: null,
        },
      },
      receipts: hashes.toReversed().map((receipt_hash) => ({
        receipt_hash,
        node_id: nodeId,
        job_id: expect.stringMatching(/^req_/),
        node_class: 'gpu',
        model_id: 'm',
        status: receipt_hash === hashes[3] ? 'held' : 'accepted',
        received_at: expect.stringMatching(instants),
        batch_id: null,
      })),
      payout_batches: [],
    })
    const one = await body('/v1/public/settlement?limit=1&batch_limit=1')
    expect((one.receipts as unknown as unknown[]).length).toBe(1)
  })

  test.each(['limit=0', 'limit=201', 'batch_limit=0', 'batch_limit=101', 'limit=1&limit=2'])(
    '400 for %s',
    async (query) => {
      expect((await get(`/v1/public/settlement?${query}`)).status).toBe(400)
    },
  )

  test('the topic is that of the specification', () => {
    expect(settledEventTopic).toBe('0xb98c57fa64357cfe39408dc466715d5b58b82cc914f766f802b4ad2c854f66c8')
  })
})

/**
 * The list that OpenRouter asks of its providers, in the flat format that it calls legacy and still takes
 * (https://openrouter.ai/docs/guides/providers/integration-legacy, read on 2026-11-21): its enumerations, and its prices,
 * which are strings in USD for one unit. Written from that page and not from ours. Of the members in its required block
 * the specification has no `quantization`, `supported_sampling_parameters` and `supported_features`, which nobody tells
 * a gateway; they may be absent here, and where they are present they must be of its lists.
 */
const oneOf = (...names: readonly string[]) => Type.Union(names.map((name) => Type.Literal(name)))
const someOf = (...names: readonly string[]) => Type.Array(oneOf(...names), { minItems: 1, uniqueItems: true })
const openRouterPrice = Type.String({ pattern: '^[0-9]+(\\.[0-9]+)?$' })
const openRouterList = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Type.String({ minLength: 1 }),
      hugging_face_id: Type.Optional(Type.String()),
      name: Type.String({ pattern: '^[^:]+: .+$' }),
      created: Type.Integer({ minimum: 0 }),
      input_modalities: someOf('text', 'image', 'file', 'audio', 'video'),
      output_modalities: someOf(
        ...['text', 'image', 'embeddings', 'audio', 'video', 'rerank', 'speech', 'transcription'],
      ),
      quantization: Type.Optional(
        oneOf('int4', 'int8', 'fp4', 'mxfp4', 'nvfp4', 'fp6', 'fp8', 'mxfp8', 'fp16', 'bf16', 'fp32'),
      ),
      context_length: Type.Integer({ minimum: 1 }),
      max_output_length: Type.Integer({ minimum: 1 }),
      pricing: Type.Object({
        prompt: openRouterPrice,
        completion: openRouterPrice,
        image: openRouterPrice,
        request: openRouterPrice,
        input_cache_read: openRouterPrice,
      }),
      supported_sampling_parameters: Type.Optional(
        Type.Array(
          oneOf(
            ...['temperature', 'top_p', 'top_k', 'min_p', 'top_a', 'frequency_penalty', 'presence_penalty'],
            ...['repetition_penalty', 'stop', 'seed', 'max_tokens', 'logit_bias'],
          ),
        ),
      ),
      supported_features: Type.Optional(
        Type.Array(oneOf('tools', 'json_mode', 'structured_outputs', 'logprobs', 'web_search', 'reasoning')),
      ),
      description: Type.Optional(Type.String()),
      is_ready: Type.Optional(Type.Boolean()),
    }),
    { minItems: 1 },
  ),
})

describe('endpoint 10: marketplace', () => {
  test('§9: models of public machines, with every field; the list that OpenRouter takes', async () => {
    const list = await body('/openrouter/models')
    expect([...Value.Errors(openRouterList, list)]).toEqual([])
    expect(list).toEqual({
      data: [
        {
          id: 'meta/llama-8b',
          name: 'meta: Llama 8B',
          created: expect.any(Number),
          description: 'Eight billion',
          input_modalities: ['text', 'image'],
          output_modalities: ['text'],
          context_length: 8_192,
          max_output_length: 4_096,
          is_ready: true,
          pricing: { prompt: '0.00000015', completion: '0.0000006', image: '0', request: '0', input_cache_read: '0' },
        },
        {
          id: 'plain',
          name: 'svc: plain',
          created: expect.any(Number),
          description: '',
          input_modalities: ['text'],
          output_modalities: ['text'],
          context_length: 8_192,
          max_output_length: 8_192,
          is_ready: true,
          pricing: { prompt: '0', completion: '0', image: '0', request: '0', input_cache_read: '0' },
        },
      ],
    } as never)
  })

  test('§9: a model whose nodes are not ready is listed, and says so', async () => {
    const other = await startTestGateway({ env: { SVC_MARKETPLACE_SEGMENT: 'openrouter' } })
    const [node] = startFakeNodes(1, () => ({ models: ['tired'], contextLength: 8_192 }))
    try {
      const owner = await other.customer()
      const shared = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
      const drained = await other.node(node?.url ?? '', shared)
      await other.admin('POST', `/v1/admin/nodes/${drained}/drain`, { reason: 'a new fan' })
      const { data } = (await (await fetch(`${other.url}/openrouter/models`)).json()) as { data: unknown[] }
      expect(data).toEqual([expect.objectContaining({ id: 'tired', is_ready: false })])
    } finally {
      await other.stop()
      node?.stop()
    }
  })

  test('byte-identical for every caller, for 15 s, whatever happens meanwhile', async () => {
    const keys = { authorization: `Bearer ${customer.key}`, 'x-svc-customer-id': customer.customerId }
    const first = await get('/openrouter/models')
    const bytes = await first.text()
    await gateway.admin('PUT', '/v1/admin/models', { id: 'plain', name: 'Changed' })
    for (const headers of [{}, keys, { authorization: 'Bearer nonsense' }]) {
      const again = await get('/openrouter/models', headers)
      expect([again.status, await again.text()]).toEqual([200, bytes])
      for (const name of ['etag', 'cache-control', 'content-type', 'access-control-allow-origin']) {
        expect(again.headers.get(name)).toBe(first.headers.get(name))
      }
    }
    expect(first.headers.get('cache-control')).toBe('public, max-age=15, s-maxage=15')
    expect(first.headers.get('etag')).toMatch(/^"[0-9a-f]{32}"$/)
  })

  test('an unchanged list is 304', async () => {
    const etag = (await get('/openrouter/models')).headers.get('etag') ?? ''
    for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const same = await get('/openrouter/models', { 'if-none-match': tag })
      expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', etag])
    }
    expect((await get('/openrouter/models', { 'if-none-match': '"x"' })).status).toBe(200)
  })

  test('the index names the path as it is configured', async () => {
    const { endpoints } = (await body('/v1/api')) as never as { endpoints: string[] }
    expect(endpoints).toContain('GET /openrouter/models')
    expect((await get('/marketplace/models')).status).toBe(404)
  })
})

describe('§14, §25: settings of settlement', () => {
  const faults = (env: Record<string, string>) => {
    const read = readConfig(env)
    return 'faults' in read ? read.faults : []
  }
  const key = `0x${'11'.repeat(32)}`
  const chain = {
    SVC_CHAIN_RPC_URL: 'https://rpc.example/v2/secret-key',
    SVC_CHAIN_ID: '31337',
    SVC_CHAIN_KEY: key,
    SVC_CHAIN_CONTRACT: `0x${'22'.repeat(20)}`,
  }
  test('together or not at all', () => {
    expect(faults(chain)).toEqual([])
    for (const name of Object.keys(chain)) {
      const { [name as keyof typeof chain]: _, ...rest } = chain
      expect(faults(rest)).toHaveLength(1)
    }
  })
  test.each([
    ['https://user:pw@rpc.example/'],
    ['https://rpc.example/?key=1'],
    ['https://rpc.example/v2/secret-key'],
    ['ftp://rpc.example/'],
    ['nonsense'],
  ])('the public RPC may not be %s', (url) => {
    const found = faults({ ...chain, SVC_PUBLIC_RPC_URL: url })
    expect(found).toHaveLength(1)
    expect(found.join()).not.toContain('secret-key')
  })
  test('a key, an address and a segment that are none are refused without being shown', () => {
    expect(faults({ ...chain, SVC_CHAIN_KEY: 'abc' })).toEqual(['SVC_CHAIN_KEY must be 0x and 64 hex digits'])
    expect(faults({ ...chain, SVC_CHAIN_CONTRACT: '0x12' })).toHaveLength(1)
    expect(faults({ SVC_MARKETPLACE_SEGMENT: 'a/b' })).toHaveLength(1)
    expect(faults({ SVC_PAYOUT_BATCH_MIN_WEI: '1.5' })).toEqual([
      'SVC_PAYOUT_BATCH_MIN_WEI must be a whole amount of wei',
    ])
  })
})
