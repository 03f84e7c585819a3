import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { estimateCalls } from '../../../src/actors/operations/completion-calls.ts'
import { readPromise } from '../../../src/protocol/log/promise.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const model = 'paid'
const promptPrice = 10n
const outputPrice = 1_000n
const maxTokens = 20
const creditWei = 10_000_000n
/** Of one prompt, as the node tells it. */
const usage = { prompt_tokens: 1, completion_tokens: 4, total_tokens: 5 }
const cost = promptPrice + 4n * outputPrice

let heard: ScriptedCall[] = []

beforeEach(() => answer(complete))
afterEach(async () => {
  await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
  await expectBooksBalance(gateway.database.db)
})

const credit = ({ customerId }: TestCustomer, wei: bigint) =>
  gateway.admin('POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: wei.toString() })
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
const nodeId = await gateway.node(node.url, {
  customerId: owner.customerId,
  visibility: 'public',
  privacyClass: 'public',
})
await gateway.admin('PUT', '/v1/admin/models', {
  id: model,
  prompt_token_price_wei: promptPrice.toString(),
  completion_token_price_wei: outputPrice.toString(),
})
await credit(payer, creditWei)

async function account(of: TestCustomer = payer) {
  const seen = await gateway.admin<Record<string, string>>('GET', `/v1/admin/customers/${of.customerId}`)
  return { balance: BigInt(seen.balance_wei ?? 0), reserved: BigInt(seen.reserved_wei ?? 0) }
}
function answer(script: (call: ScriptedCall) => void | Promise<void>): void {
  heard = []
  node.answer((call) => {
    heard.push(call)
    return script(call)
  })
}
/** As many tokens as are told. */
const text = 'some words were written here'
async function complete(call: ScriptedCall): Promise<void> {
  if (call.body.stream !== true) {
    return call.respond(200, { choices: [{ index: 0, text, finish_reason: 'stop', logprobs: null }], usage })
  }
  call.open()
  await call.event({ choices: [{ index: 0, text, finish_reason: null }] })
  await call.event({ choices: [{ index: 0, text: '', finish_reason: 'stop' }], usage })
  await call.event('[DONE]')
  call.end()
}
const ask = (body: object, { key = payer.key, ...headers }: Record<string, string> = {}, signal?: AbortSignal) =>
  postJson(`${gateway.url}/v1/completions`, key, { model, max_tokens: maxTokens, ...body }, { headers, signal })
const quoteOf = (prompt: string) =>
  BigInt(estimateCalls({ model, prompt }).tokens) * promptPrice + BigInt(maxTokens) * outputPrice
interface Answer {
  readonly choices: readonly object[]
  readonly usage: object
  readonly svc: { readonly request_id: string; readonly receipt_hashes: readonly string[] }
}
const entriesSince = async (seq: number) =>
  (
    await gateway.database.sql<{ kind: string; amount_wei: string; receipt_hash: string | null }[]>`
      select kind, amount_wei, receipt_hash from ledger_entries where customer_id = ${payer.customerId} order by seq`
  ).slice(seq)
const code = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  return [response.status, error.code, error.message] as const
}

describe('§13: a list of prompts on a machine of others', () => {
  test.each([[true], [false]])(
    '§36: the log promises the receipt of each call, at the end alone; stream %p',
    async (stream) => {
      const said = await (await ask({ prompt: ['a', 'b', 'c'], stream })).text()
      const told = stream ? said.split('\n').findLast((line) => line.includes('"svc"')) : said
      const { svc } = JSON.parse((told ?? '').replace('data: ', '')) as {
        svc: { receipt_hashes: string[]; receipts: object[]; receipt?: object }
      }
      expect(svc.receipts.map((promise) => readPromise(promise)?.promised.hash)).toEqual(svc.receipt_hashes)
      expect([svc.receipts.length, svc.receipt, said.match(/"promised_at"/g)?.length]).toEqual([3, undefined, 3])
    },
  )

  test('each call is reserved before the first, debited for what passed, and has its receipt and its payout', async () => {
    const seen = (await entriesSince(0)).length
    const before = await account()
    const reservedAtFirst = Promise.withResolvers<bigint>()
    answer(async (call) => {
      if (heard.length === 1) reservedAtFirst.resolve((await account()).reserved)
      await complete(call)
    })
    const { choices, usage: all, svc } = (await (await ask({ prompt: ['a', 'b'], n: 2 })).json()) as Answer
    expect(choices).toHaveLength(4)
    expect(all).toMatchObject({ prompt_tokens: 4, completion_tokens: 16, total_tokens: 20 })
    const quote = quoteOf('a')
    expect(await reservedAtFirst.promise).toBe(4n * quote)
    expect((await account()).balance).toBe(before.balance - 4n * cost)
    const fresh = await entriesSince(seen)
    const sums = (kind: string) => fresh.filter((entry) => entry.kind === kind).map((entry) => BigInt(entry.amount_wei))
    expect(sums('reserve')).toEqual([quote, quote, quote, quote])
    expect(sums('debit')).toEqual([cost, cost, cost, cost])
    expect(sums('release')).toEqual([0, 1, 2, 3].map(() => quote - cost))
    const debited = fresh.flatMap(({ kind, receipt_hash: hash }) => (kind === 'debit' && hash !== null ? [hash] : []))
    expect(debited.sort()).toEqual([...svc.receipt_hashes].sort())
    const payouts = await gateway.database.sql`select node_id, gross_wei from payouts
      where receipt_hash in ${gateway.database.sql([...svc.receipt_hashes])}`
    expect([...payouts]).toEqual([0, 1, 2, 3].map(() => ({ node_id: nodeId, gross_wei: cost.toString() })))
    const { request } = await gateway.admin<{ request: { cost_wei: string } }>(
      'GET',
      `/v1/admin/requests/${svc.request_id}`,
    )
    expect(BigInt(request.cost_wei)).toBe(4n * cost)
  })

  test('§14: a stream is on the books before its last event', async () => {
    const before = await account()
    const told = await (await ask({ prompt: ['a', 'b', 'c'], stream: true })).text()
    expect(told).toEndWith('data: [DONE]\n\n')
    expect((await account()).balance).toBe(before.balance - 3n * cost)
  })

  test('without max_tokens each call gets the bound of its quote', async () => {
    await ask({ prompt: ['a', 'b'], max_tokens: undefined })
    expect(heard.map(({ body }) => body.max_tokens)).toEqual([4_096, 4_096])
  })

  test('a call that fails fails a whole answer, and none is charged', async () => {
    const seen = (await entriesSince(0)).length
    answer((call) => (call.body.prompt === 'b' ? call.respond(500, {}) : complete(call)))
    expect((await code(await ask({ prompt: ['a', 'b', 'c'] }))).slice(0, 2)).toEqual([502, 'upstream_error'])
    await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
    expect((await entriesSince(seen)).filter(({ kind }) => kind === 'debit')).toEqual([])
  })

  test('of a stream that fails what passed is charged, and no more', async () => {
    const before = await account()
    const seen = (await entriesSince(0)).length
    answer(async (call) => {
      if (call.body.prompt === 'a') return complete(call)
      call.open()
      await call.event({ choices: [{ index: 0, text: 'x', finish_reason: null }] })
      await waitUntil('the first is charged', async () =>
        (await entriesSince(seen)).some(({ kind }) => kind === 'debit'),
      )
      call.cut('reset')
    })
    const told = await (await ask({ prompt: ['a', 'b'], stream: true })).text()
    expect(told).toContain('The node stopped responding.')
    await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
    const debits = (await entriesSince(seen))
      .filter(({ kind }) => kind === 'debit')
      .map(({ amount_wei: wei }) => BigInt(wei))
    expect(debits[0]).toBe(cost)
    expect(debits).toHaveLength(2)
    expect((await account()).balance).toBe(before.balance - debits.reduce((sum, wei) => sum + wei, 0n))
  })

  test('of a stream that its client leaves what passed is charged, and the key is used up', async () => {
    const before = await account()
    const seen = (await entriesSince(0)).length
    const leaving = new AbortController()
    const gone = Promise.withResolvers<void>()
    answer(async (call) => {
      if (call.body.prompt === 'a') return complete(call)
      call.open()
      await call.event({ choices: [{ index: 0, text: 'x', finish_reason: null }] })
      await call.gone
      gone.resolve()
    })
    const key = { 'idempotency-key': 'left' }
    const response = await ask({ prompt: ['a', 'b'], stream: true }, key, leaving.signal)
    await waitUntil('the first is charged', async () => (await entriesSince(seen)).some(({ kind }) => kind === 'debit'))
    await response.body?.getReader().read()
    leaving.abort()
    await gone.promise
    await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
    const debits = (await entriesSince(seen)).filter(({ kind }) => kind === 'debit')
    expect(debits).toHaveLength(2)
    expect((await account()).balance).toBe(
      before.balance - debits.reduce((sum, { amount_wei: wei }) => sum + BigInt(wei), 0n),
    )
    // The key follows the last charge.
    const again = async () => (await code(await ask({ prompt: ['a', 'b'], stream: true }, key)))[1]
    await waitUntil('the key is used up', async () => (await again()) === 'idempotency_completed')
  })

  test('of a whole answer that its client leaves nothing is charged, and the key is free', async () => {
    const seen = (await entriesSince(0)).length
    const leaving = new AbortController()
    const gone: Promise<void>[] = []
    const both = Promise.withResolvers<void>()
    answer((call) => {
      gone.push(call.gone)
      if (gone.length === 2) both.resolve()
    })
    const key = { 'idempotency-key': 'left-whole' }
    const asked = ask({ prompt: ['a', 'b'] }, key, leaving.signal).catch(() => null)
    await both.promise
    leaving.abort()
    await Promise.all([...gone, asked])
    await waitUntil('nothing is reserved', async () => (await account()).reserved === 0n)
    expect((await entriesSince(seen)).filter(({ kind }) => kind === 'debit')).toEqual([])
    answer(complete)
    await waitUntil('the key is free', async () => (await ask({ prompt: ['a', 'b'] }, key)).status === 200)
  })

  test('money for some of the calls alone, or a bound of the price below all of them: refused before a node hears of it', async () => {
    const poor = await gateway.customer({ policy: open, keyPolicy: open })
    const quote = quoteOf('a')
    await credit(poor, 2n * quote)
    const [status, why, message] = await code(await ask({ prompt: ['a', 'b', 'c'] }, { key: poor.key }))
    expect([status, why]).toEqual([402, 'insufficient_funds'])
    expect(message).toContain(`(${3n * quote} wei)`)
    const cap = { svc: { max_price_wei: (2n * quote).toString() } }
    expect((await code(await ask({ prompt: ['a', 'b', 'c'], ...cap }))).slice(0, 2)).toEqual([
      402,
      'max_price_exceeded',
    ])
    expect(heard).toEqual([])
    expect((await ask({ prompt: ['a', 'b'], ...cap })).status).toBe(200)
    expect((await ask({ prompt: ['a', 'b'] }, { key: poor.key })).status).toBe(200)
    expect((await account(poor)).reserved).toBe(0n)
  })

  test.each([false, true])(
    '§5: an idempotency key is that of the whole request, and is billed once: stream %p',
    async (stream) => {
      const key = { 'idempotency-key': `list-${stream}` }
      const first = await ask({ prompt: ['a', 'b'], stream }, key)
      await first.text()
      const before = await account()
      const again = await ask({ prompt: ['a', 'b'], stream }, key)
      const { error } = (await again.json()) as { error: { code: string; svc: { original: object } } }
      expect([again.status, error.code]).toEqual([409, 'idempotency_completed'])
      expect(error.svc.original).toMatchObject({
        request_id: first.headers.get('x-request-id'),
        usage: { prompt_tokens: 2, completion_tokens: 8, total_tokens: 10 },
      })
      expect((await code(await ask({ prompt: ['a', 'c'], stream }, key)))[1]).toBe('idempotency_key_reused')
      expect(await account()).toEqual(before)
    },
  )

  test('§5: the key of a request that failed is free again', async () => {
    const key = { 'idempotency-key': 'failed' }
    answer((call) => call.respond(500, {}))
    expect((await ask({ prompt: ['a', 'b'] }, key)).status).toBe(502)
    answer(complete)
    await waitUntil('the key is free', async () => (await ask({ prompt: ['a', 'b'] }, key)).status === 200)
  })

  test('the owner of the machine pays nothing', async () => {
    const seen = (await gateway.database.sql`select 1 from ledger_entries`).length
    expect((await ask({ prompt: ['a', 'b'], n: 2 }, { key: owner.key })).status).toBe(200)
    expect((await gateway.database.sql`select 1 from ledger_entries`).length).toBe(seen)
  })
})
