import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { promptTokens } from '../../../src/protocol/chat/token-estimate.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello there' }]
const estimate = BigInt(promptTokens({ messages }))
/** Wei for a token of an answer. */
const prices = { dear: 5_000n, cheap: 1_000n }
const most = 20n

let gateway: TestGateway
let payer: TestCustomer
let nodes: readonly FakeNode[]
let dear: FakeNode
let cheap: FakeNode
let own: FakeNode
beforeAll(async () => {
  gateway = await startTestGateway({
    env: { SVC_POLL_INTERVAL_MS: '60000', SVC_STALE_AFTER_MS: '600000', SVC_OFFLINE_AFTER_MS: '3600000' },
  })
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  payer = await gateway.customer({ policy: open, keyPolicy: open })
  nodes = startFakeNodes(3, (at) => ({ models: [['dear', 'cheap', 'own'][at] as string] }))
  dear = nodeAt(nodes, 0)
  cheap = nodeAt(nodes, 1)
  own = nodeAt(nodes, 2)
  const shared = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
  for (const { url } of [dear, cheap]) await gateway.node(url, shared)
  await gateway.node(own.url, { customerId: payer.customerId })
  for (const [id, price] of Object.entries(prices)) {
    await gateway.admin('PUT', '/v1/admin/models', { id, completion_token_price_wei: price.toString() })
  }
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })
})
afterEach(async () => {
  for (const node of nodes) {
    node.clearFaults()
    node.setAnswer({ firstTokenMs: 0, intervalMs: 0, chunks: 3, usage: null })
  }
  await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
  await expectBooksBalance(gateway.database.db)
})
afterAll(async () => {
  await gateway.stop()
  for (const node of nodes) node.stop()
})

async function account() {
  const seen = await gateway.admin<Record<string, string>>('GET', `/v1/admin/customers/${payer.customerId}`)
  return { balance: BigInt(seen.balance_wei ?? 0), reserved: BigInt(seen.reserved_wei ?? 0) }
}
const entries = async () =>
  (
    await gateway.database.sql<{ kind: string; amount_wei: string }[]>`select kind, amount_wei from ledger_entries
      where customer_id = ${payer.customerId} order by seq`
  ).map(({ kind, amount_wei }) => [kind, BigInt(amount_wei)] as const)
interface Answer {
  readonly model: string
  readonly usage: { readonly completion_tokens: number }
  readonly svc: { readonly receipt_hash: string; readonly request_id: string }
}
const ask = (body: object = {}, idempotencyKey: string | null = null) =>
  gateway.chat(
    payer.key,
    { models: ['dear', 'cheap'], messages, max_tokens: Number(most), ...body },
    idempotencyKey === null
      ? {}
      : {
          headers: {
            authorization: `Bearer ${payer.key}`,
            'content-type': 'application/json',
            'idempotency-key': idempotencyKey,
          },
        },
  )
const costOf = (answer: Answer, price: bigint) => BigInt(answer.usage.completion_tokens) * price
const refused = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; svc: { original?: Answer['svc'] } } }
  return { status: response.status, code: error.code, original: error.svc.original }
}

describe('§28, §13: the price, the reservation and the receipt are of the model that answers', () => {
  test.each([[false], [true]])('what the first had reserved goes back, stream %p', async (stream) => {
    dear.setFaults({ kind: 'status500' })
    const [before, seen] = [await account(), (await entries()).length]
    const response = await ask({ stream })
    const answer = (stream ? (await readStream(response)).last : await response.json()) as Answer
    expect(answer.model).toBe('cheap')
    const cost = costOf(answer, prices.cheap)
    await waitUntil('all went back', async () => (await account()).reserved === 0n)
    expect((await account()).balance).toBe(before.balance - cost)
    const fresh = (await entries()).slice(seen)
    expect([...fresh].sort()).toEqual(
      (
        [
          ['debit', cost],
          ['release', most * prices.dear],
          ['release', most * prices.cheap - cost],
          ['reserve', most * prices.cheap],
          ['reserve', most * prices.dear],
        ] as const
      ).toSorted(),
    )
    const [receipt] = await gateway.database.sql`select model_id, billed from receipts
      where receipt_hash = ${answer.svc.receipt_hash}`
    expect(receipt).toEqual({ model_id: 'cheap', billed: true })
    const { request } = await gateway.admin<{ request: Record<string, unknown> }>(
      'GET',
      `/v1/admin/requests/${answer.svc.request_id}`,
    )
    expect([request.model, request.cost_wei, request.receipt_hash]).toEqual([
      'cheap',
      cost.toString(),
      answer.svc.receipt_hash,
    ])
  })

  test('a price above the cap, or above what the account has, leads to the next', async () => {
    const cap = (most * prices.cheap + estimate).toString()
    const capped = (await (await ask({ svc: { max_price_wei: cap } })).json()) as Answer
    expect(capped.model).toBe('cheap')
    const rich = (await account()).balance
    const asked = (rich / prices.dear + 1n).toString()
    const covered = (await (await ask({ max_tokens: Number(asked) })).json()) as Answer
    expect(covered.model).toBe('cheap')
    expect(dear.requests.filter(({ body }) => (body as { max_tokens?: number }).max_tokens === Number(asked))).toEqual(
      [],
    )
  })

  test('an own model behind a priced one costs nothing', async () => {
    dear.setFaults({ kind: 'status500' })
    const before = (await account()).balance
    for (const key of [null, 'own-behind']) {
      const answer = (await (await ask({ models: ['dear', 'own'] }, key)).json()) as Answer
      expect(answer.model).toBe('own')
    }
    expect((await account()).balance).toBe(before)
    // Nothing was billed: the key is free again.
    await waitUntil('the key is free', async () => {
      const { status } = await ask({ models: ['dear', 'own'] }, 'own-behind')
      return status === 200
    })
  })

  test('where none answers nothing is charged', async () => {
    dear.setFaults({ kind: 'status500' })
    cheap.setFaults({ kind: 'status500' })
    const before = (await account()).balance
    expect((await ask()).status).toBe(502)
    await waitUntil('all went back', async () => (await account()).reserved === 0n)
    expect((await account()).balance).toBe(before)
  })
})

describe('§5: the key of a request whose second model is paid', () => {
  test('it is completed under the request’s own id', async () => {
    dear.setFaults({ kind: 'status500' })
    const first = await ask({}, 'second-paid')
    const { svc } = (await first.json()) as Answer
    const again = await refused(await ask({}, 'second-paid'))
    expect([again.status, again.code]).toEqual([409, 'idempotency_completed'])
    expect(again.original).toMatchObject({
      request_id: first.headers.get('x-request-id'),
      receipt_hash: svc.receipt_hash,
    })
  })

  test('one request is billed, though its first model was too dear and the next took so long that the key was free', async () => {
    const before = await account()
    const body = { models: ['dear', 'own', 'cheap'], max_tokens: Number(before.balance / prices.dear + 1n) }
    own.setFaults({ kind: 'failAfter', ms: 60_000 })
    const arrived = own.nextRequest()
    const slow = ask(body, 'long-away')
    await arrived
    own.setFaults({ kind: 'status500' })
    await gateway.database.sql`update idempotency_keys set created_at = now() - interval '3 min'
      where status = 'in_progress'`
    const answer = (await (await ask(body, 'long-away')).json()) as Answer
    expect(answer.model).toBe('cheap')
    own.release()
    const late = await refused(await slow)
    expect([late.status, late.code]).toEqual([409, 'idempotency_completed'])
    expect(late.original).toMatchObject({ receipt_hash: answer.svc.receipt_hash })
    await waitUntil('all went back', async () => (await account()).reserved === 0n)
    expect((await account()).balance).toBe(before.balance - costOf(answer, prices.cheap))
  })

  test('it is in use until then, also for whoever thinks it abandoned', async () => {
    dear.setFaults({ kind: 'status500' })
    cheap.setAnswer({ firstTokenMs: 60_000 })
    const leave = new AbortController()
    const arrived = cheap.nextRequest()
    const init = {
      signal: leave.signal,
      headers: {
        authorization: `Bearer ${payer.key}`,
        'content-type': 'application/json',
        'idempotency-key': 'still-running',
      },
    }
    const asking = gateway
      .chat(payer.key, { models: ['dear', 'cheap'], messages, max_tokens: Number(most) }, init)
      .catch(() => null)
    await arrived
    // As if the claim were a minute old.
    await gateway.database.sql`update idempotency_keys set created_at = now() - interval '1 min'
      where status = 'in_progress'`
    expect(await refused(await ask({}, 'still-running'))).toMatchObject({
      status: 409,
      code: 'idempotency_in_progress',
    })
    const aborted = cheap.nextAbort()
    leave.abort()
    await Promise.all([asking, aborted])
    cheap.setAnswer({ firstTokenMs: 0 })
    await waitUntil('the key is free', async () => (await ask({}, 'still-running')).status === 200)
  })
})
