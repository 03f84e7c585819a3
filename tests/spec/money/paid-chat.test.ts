import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { promptTokens } from '../../../src/protocol/chat/token-estimate.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello there' }]
const estimate = promptTokens({ messages })
const promptPrice = 10n
const outputPrice = 1_000n

afterEach(async () => {
  publicNode.clearFaults()
  publicNode.setAnswer({ usage: null, chunks: 3, firstTokenMs: 0, intervalMs: 0 })
  await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
  await expectBooksBalance(gateway.database.db)
})

const credit = (wei: string) =>
  gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: wei })
afterAll(() => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = startFakeNodes(1, { models: ['paid', 'free'] })
const publicNode = nodeAt(nodes, 0)
const nodeId = await gateway.node(publicNode.url, {
  customerId: owner.customerId,
  visibility: 'public',
  privacyClass: 'public',
})
await gateway.admin('PUT', '/v1/admin/models', {
  id: 'paid',
  prompt_token_price_wei: promptPrice.toString(),
  completion_token_price_wei: outputPrice.toString(),
})
await credit('10000000')

async function account(of: TestCustomer = payer) {
  const seen = await gateway.admin<Record<string, string>>('GET', `/v1/admin/customers/${of.customerId}`)
  return { balance: BigInt(seen.balance_wei ?? 0), reserved: BigInt(seen.reserved_wei ?? 0) }
}
const entries = async () =>
  (
    await gateway.database.sql<
      { kind: string; amount_wei: string; receipt_hash: string | null }[]
    >`select kind, amount_wei,
    receipt_hash from ledger_entries where customer_id = ${payer.customerId} order by seq`
  ).slice(1)
const ask = (body: object = {}, key = payer.key, init: RequestInit = {}) =>
  gateway.chat(key, { model: 'paid', messages, max_tokens: 20, ...body }, init)
interface Answer {
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
  readonly svc: { readonly receipt_hash: string }
}
const costOf = ({ usage }: Answer) =>
  BigInt(usage.prompt_tokens) * promptPrice + BigInt(usage.completion_tokens) * outputPrice
const quote = BigInt(estimate) * promptPrice + 20n * outputPrice
const code = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; param: string | null; type: string } }
  return [response.status, error.code, error.param, error.type]
}

describe('§13: paid chat on a machine of others', () => {
  test('reserve, debit what passed, release the rest; a receipt and a payout behind it', async () => {
    publicNode.setAnswer({ usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 } })
    const [before, seen] = [await account(), (await entries()).length]
    const answer = (await (await ask()).json()) as Answer
    const cost = costOf(answer)
    expect(cost).toBe(5n * promptPrice + 4n * outputPrice)
    expect((await account()).balance).toBe(before.balance - cost)
    const fresh = (await entries()).slice(seen)
    expect(fresh.map(({ kind, amount_wei }) => [kind, BigInt(amount_wei)])).toEqual([
      ['reserve', quote],
      ['debit', cost],
      ['release', quote - cost],
    ])
    expect(fresh[1]?.receipt_hash).toBe(answer.svc.receipt_hash)
    const [payout] = await gateway.database.sql`select node_id, gross_wei, amount_wei from payouts
      where receipt_hash = ${answer.svc.receipt_hash}`
    expect(payout).toEqual({ node_id: nodeId, gross_wei: cost.toString(), amount_wei: (cost - cost / 10n).toString() })
  })

  test('§14: a stream is on the books before its terminal chunk', async () => {
    const before = await account()
    const stream = await readStream(await ask({ stream: true }))
    const last = stream.last as unknown as Answer
    expect(stream.done).toBe(true)
    expect((await account()).balance).toBe(before.balance - costOf(last))
    const [receipt] = await gateway.database
      .sql`select billed from receipts where receipt_hash = ${last.svc.receipt_hash}`
    expect(receipt).toEqual({ billed: true })
  })

  test('the own machine and what has no price are free: no row at all', async () => {
    const seen = (await gateway.database.sql`select 1 from ledger_entries`).length
    expect((await ask({}, owner.key)).status).toBe(200)
    expect((await ask({ model: 'free' })).status).toBe(200)
    expect((await ask({ svc: { max_price_wei: 'nonsense' } }, owner.key)).status).toBe(200)
    expect((await gateway.database.sql`select 1 from ledger_entries`).length).toBe(seen)
  })

  test('without max_tokens a bound is injected for the quote, on billed routes alone', async () => {
    await ask({ max_tokens: undefined })
    const paid = publicNode.requests.at(-1)?.body as { max_tokens?: number }
    expect(paid.max_tokens).toBe(4_096)
    await ask({ max_tokens: undefined }, owner.key)
    expect(publicNode.requests.at(-1)?.body).not.toHaveProperty('max_tokens')
    const path = `/v1/admin/customers/${payer.customerId}/keys`
    const bounded = { name: 'bounded', model_policy: { ...open, max_tokens_per_request: 50 } }
    const { gateway_key: narrow } = await gateway.admin<{ gateway_key: string }>('POST', path, bounded)
    for (const stream of [false, true]) {
      const seen = (await entries()).length
      await (await ask({ max_tokens: undefined, stream }, narrow)).text()
      expect(publicNode.requests.at(-1)?.body).toMatchObject({ max_tokens: 50 })
      expect((await entries())[seen]?.amount_wei).toBe((BigInt(estimate) * promptPrice + 50n * outputPrice).toString())
    }
  })

  test('402 where the money or the caller’s own cap does not suffice; nothing reaches the node', async () => {
    const asked = publicNode.requests.length
    const poor = await gateway.customer({ policy: open, keyPolicy: open })
    const told = async (response: Response) => ((await response.json()) as { error: { message: string } }).error.message
    const quoted = `This request is quoted at 0.${quote.toString().padStart(18, '0').replace(/0+$/, '')} ETH (${quote} wei)`
    expect(await told(await ask({}, poor.key))).toBe(`${quoted}; the account has 0 ETH (0 wei) available.`)
    expect(await told(await ask({ svc: { max_price_wei: '1000' } }))).toBe(
      `${quoted}; svc.max_price_wei allows 0.000000000000001 ETH (1000 wei).`,
    )
    expect(await told(await ask({ svc: { max_price_wei: '1e9' } }))).toBe(
      'svc.max_price_wei must be whole wei as a text of digits, such as "1000"; you sent text of 3 characters.',
    )
    expect(await code(await ask({ max_tokens: 1_000_000 }))).toEqual([402, 'insufficient_funds', null, 'billing_error'])
    const cap = { svc: { max_price_wei: (quote - 1n).toString() } }
    for (const stream of [false, true]) {
      expect(await code(await ask({ ...cap, stream }))).toEqual([
        402,
        'max_price_exceeded',
        'svc.max_price_wei',
        'billing_error',
      ])
    }
    expect((await code(await ask({ svc: { max_price_wei: '1e9' } }))).slice(0, 3)).toEqual([
      400,
      'invalid_request',
      'svc.max_price_wei',
    ])
    expect(publicNode.requests.length).toBe(asked)
    expect((await ask({ svc: { max_price_wei: quote.toString() } })).status).toBe(200)
  })

  test('without leave in the policy no money is spent', async () => {
    const home = await gateway.customer()
    await gateway.admin('POST', `/v1/admin/customers/${home.customerId}/credits`, { amount_wei: '1000000' })
    expect((await ask({}, home.key)).status).toBe(403)
    expect((await account(home)).balance).toBe(1_000_000n)
  })
})

describe('§4: an operator acts for a customer, without a key', () => {
  const asOperator = (of: TestCustomer, body: object = {}) =>
    ask(body, gateway.tokens.operator, {
      headers: {
        authorization: `Bearer ${gateway.tokens.operator}`,
        'content-type': 'application/json',
        'x-svc-customer-id': of.customerId,
        'x-svc-customer-token': of.customerToken,
      },
    })

  test.each([[false], [true]])(
    '§27: the account’s policy stands alone, so that it may pay; stream %p',
    async (stream) => {
      const before = await account()
      const response = await asOperator(payer, { stream })
      expect(response.status).toBe(200)
      const answer = stream ? ((await readStream(response)).last as unknown) : ((await response.json()) as unknown)
      expect(costOf(answer as Answer)).toBeGreaterThan(0n)
      expect((await account()).balance).toBe(before.balance - costOf(answer as Answer))
    },
  )

  test('where the account keeps its prompts at home it is refused as its keys are', async () => {
    const home = await gateway.customer()
    await gateway.admin('POST', `/v1/admin/customers/${home.customerId}/credits`, { amount_wei: '1000000' })
    expect((await asOperator(home)).status).toBe(403)
    expect((await account(home)).balance).toBe(1_000_000n)
  })

  test('a key without a policy of its own still keeps prompts at home, whatever the account allows', async () => {
    const plain = await gateway.customer({ policy: open })
    await gateway.admin('POST', `/v1/admin/customers/${plain.customerId}/credits`, { amount_wei: '1000000' })
    expect((await ask({}, plain.key)).status).toBe(403)
    expect((await asOperator(plain)).status).toBe(200)
  })
})

describe('§5: usage', () => {
  test('a node that says more than can be is paid the clamped sum, and its receipt is held', async () => {
    publicNode.setAnswer({
      text: 'word '.repeat(20),
      usage: { prompt_tokens: 1_000_000, completion_tokens: 1_000_000, total_tokens: 2_000_000 },
    })
    const before = await account()
    const answer = (await (await ask()).json()) as Answer
    expect(answer.usage.prompt_tokens).toBe(Math.floor(1.5 * estimate) + 64)
    expect(answer.usage.completion_tokens).toBe(20)
    // Never more than was set aside.
    expect((await account()).balance).toBe(before.balance - quote)
    const [row] = await gateway.database.sql`select r.status, p.held from receipts r join payouts p using (receipt_hash)
      where receipt_hash = ${answer.svc.receipt_hash}`
    expect(row).toEqual({ status: 'held', held: true })
    publicNode.setAnswer({ text: null })
  })
})

describe('aborted, failed and partial', () => {
  test('a node that fails before its first byte costs nothing', async () => {
    publicNode.setFaults({ kind: 'status500' })
    const before = await account()
    expect((await ask()).status).toBe(502)
    await waitUntil('released', async () => (await account()).reserved === 0n)
    expect((await account()).balance).toBe(before.balance)
  })

  test('§5: a failing own machine is never followed by one that costs money', async () => {
    const [own] = startFakeNodes(1, { models: ['paid'] })
    if (own === undefined) throw new Error('no node')
    const ownId = await gateway.node(own.url, { customerId: payer.customerId })
    try {
      own.setFaults({ kind: 'status500' })
      const [asked, seen] = [publicNode.requests.length, (await entries()).length]
      for (const stream of [false, true]) expect((await ask({ stream })).status).toBe(502)
      expect(own.requests.length).toBe(2)
      expect(publicNode.requests.length).toBe(asked)
      expect(await entries()).toHaveLength(seen)
    } finally {
      await gateway.admin('DELETE', `/v1/admin/nodes/${ownId}`)
      own.stop()
    }
  })

  test('a client that leaves pays for what passed, and no more', async () => {
    publicNode.setAnswer({ chunks: 1_000, firstTokenMs: 0, intervalMs: 5 })
    const before = await account()
    const leave = new AbortController()
    const response = await ask({ stream: true, max_tokens: 900 }, payer.key, { signal: leave.signal })
    await response.body?.getReader().read()
    expect((await account()).reserved).toBe(BigInt(estimate) * promptPrice + 900n * outputPrice)
    leave.abort()
    await waitUntil('settled', async () => (await account()).reserved === 0n)
    const paid = before.balance - (await account()).balance
    expect(paid).toBeGreaterThan(0n)
    expect(paid).toBeLessThan(100n * outputPrice)
  })

  test.each(['dropMidStream', 'stall', 'errorEvent', 'endWithoutFinish'] as const)(
    'a stream that breaks off (%s) is charged for what passed, and no more',
    async (kind) => {
      publicNode.setFaults({ kind, afterChunks: 4 })
      publicNode.setAnswer({ chunks: 400 })
      const [before, seen] = [await account(), (await entries()).length]
      const response = await ask({ stream: true, max_tokens: 500 })
      const reader = response.body?.getReader()
      await reader?.read()
      // What is silent is left by its client; the others end by themselves, with an error event.
      if (kind === 'stall') await reader?.cancel()
      else while (!(await reader?.read())?.done);
      await waitUntil('settled', async () => (await account()).reserved === 0n)
      const [reserve, debit, release] = (await entries()).slice(seen)
      expect([reserve?.kind, debit?.kind, release?.kind]).toEqual(['reserve', 'debit', 'release'])
      const charged = BigInt(debit?.amount_wei ?? 0)
      expect((await account()).balance).toBe(before.balance - charged)
      expect(charged).toBeGreaterThan(BigInt(estimate) * promptPrice)
      expect(charged).toBeLessThan(BigInt(estimate) * promptPrice + 30n * outputPrice)
      const [receipt] = await gateway.database.sql`select billed, issuer, completion_tokens n from receipts
        where receipt_hash = ${debit?.receipt_hash ?? ''}`
      expect(receipt).toMatchObject({ billed: true, issuer: 'gateway' })
      expect(charged).toBe(BigInt(estimate) * promptPrice + BigInt(receipt?.n) * outputPrice)
      await waitUntil('the node serves again', async () => {
        publicNode.clearFaults()
        return (await ask()).status === 200
      })
    },
  )

  test('a node that tells no usage is paid by the estimate, never for more tokens than were asked for', async () => {
    publicNode.setFaults({ kind: 'noUsage' })
    publicNode.setAnswer({ text: 'word '.repeat(2_000) })
    for (const stream of [false, true]) {
      const before = await account()
      const response = await ask({ stream, max_tokens: 20 })
      const answer = stream ? ((await readStream(response)).last as never) : ((await response.json()) as never)
      expect((answer as Answer).usage).toEqual({
        prompt_tokens: estimate,
        completion_tokens: 20,
        total_tokens: estimate + 20,
      })
      expect(before.balance - (await account()).balance).toBe(quote)
    }
    publicNode.setAnswer({ text: null })
  })

  test('the prices of the quote stand, whatever the catalogue says when the answer ends', async () => {
    publicNode.setAnswer({
      firstTokenMs: 3_000,
      usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
    })
    const entry = { id: 'paid', prompt_token_price_wei: promptPrice.toString() }
    for (const price of ['900000', '0']) {
      const before = await account()
      const answering = ask()
      await waitUntil('reserved', async () => (await account()).reserved === quote)
      await gateway.admin('PUT', '/v1/admin/models', {
        ...entry,
        prompt_token_price_wei: price,
        completion_token_price_wei: price,
      })
      const answer = (await (await answering).json()) as Answer
      expect(before.balance - (await account()).balance).toBe(costOf(answer))
      await gateway.admin('PUT', '/v1/admin/models', { ...entry, completion_token_price_wei: outputPrice.toString() })
    }
    await waitUntil('priced again', async () => {
      const before = await account()
      await (await ask()).json()
      return (await account()).balance < before.balance
    })
  })

  test('sixty-four at once with money for some: never overdrawn, and all of it on the books', async () => {
    publicNode.setAnswer({ chunks: 3, firstTokenMs: 50, intervalMs: 20 })
    const { balance } = await account()
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, at) => ask({ stream: at % 2 === 0, max_tokens: 500 })),
    )
    const texts = await Promise.all(answers.map(async (answer) => [answer.status, await answer.text()] as const))
    expect(new Set(texts.map(([status]) => status))).toEqual(new Set([200, 402]))
    const after = await account()
    expect(after.balance).toBeGreaterThanOrEqual(0n)
    expect(after.balance).toBeLessThan(balance)
  })
})
