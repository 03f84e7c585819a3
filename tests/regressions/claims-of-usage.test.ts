import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { readStream } from '../support/clients/event-stream.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { startPaidGateway } from '../support/money/paid-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptoms: a node that answered nothing and claimed 64 completion tokens was paid for them, one that answered `hello` for forty
 * times of what that has; and a customer whose receipt an operator rejected got nothing back.
 * Cause: the bound of a claim was 1.5 times the estimate and 64, also where the estimate was 0; a rejected share went to the fees.
 * Fix: `clampUsage`; the ledger's entry `refund`.
 */
const [promptPrice, outputPrice] = [10n, 1_000n]

const paid = await fixture(startPaidGateway({ promptPrice, outputPrice, creditWei: 100_000_000n }))

afterEach(() => expectBooksBalance(paid.gateway.database.db))

interface Answer {
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
  readonly svc: { readonly receipt_hash: string }
}

async function answered(stream: boolean): Promise<Answer> {
  const response = await paid.ask({ stream })
  expect(response.status).toBe(200)
  return (stream ? (await readStream(response)).last : await response.json()) as unknown as Answer
}

const claim = (text: string, completion: number, toolCalls: 'auto' | 'never' = 'never') =>
  paid.node.setAnswer({
    text,
    chunks: text === '' ? 0 : 2,
    toolCalls,
    usage: { prompt_tokens: 9, completion_tokens: completion, total_tokens: 9 + completion },
  })
const statusOf = async ({ svc }: Answer) => {
  const [row] = await paid.gateway.database.sql<{ status: string }[]>`
    select status from receipts where receipt_hash = ${svc.receipt_hash}`
  return row?.status
}

describe.each([[false], [true]])('§5: claims of usage, stream %p', (stream) => {
  test('an empty answer is paid for its prompt alone, and a claim of 64 tokens is held', async () => {
    claim('', 64)
    const before = (await paid.account()).balance
    const answer = await answered(stream)
    expect(answer.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 0 })
    expect((await paid.account()).balance).toBe(before - 9n * promptPrice)
    expect(await statusOf(answer)).toBe('held')
  })

  test('the token that ended an empty answer is not paid, and is no reason to hold it', async () => {
    claim('', 1)
    const before = (await paid.account()).balance
    const answer = await answered(stream)
    expect(answer.usage.completion_tokens).toBe(0)
    expect((await paid.account()).balance).toBe(before - 9n * promptPrice)
    expect(await statusOf(answer)).toBe('accepted')
  })

  test('forty times of what `hello` has is paid as its estimate and 8 more', async () => {
    claim('hello', 80)
    const before = (await paid.account()).balance
    const answer = await answered(stream)
    expect(answer.usage.completion_tokens).toBe(10)
    expect((await paid.account()).balance).toBe(before - 9n * promptPrice - 10n * outputPrice)
    expect(await statusOf(answer)).toBe('held')
  })

  test('of a long answer half of the estimate is the slack', async () => {
    // 100 characters, 30 tokens by the estimate.
    claim('abcdefghi '.repeat(10), 46)
    expect((await answered(stream)).usage.completion_tokens).toBe(45)
    claim('abcdefghi '.repeat(10), 45)
    const honest = await answered(stream)
    expect([honest.usage.completion_tokens, await statusOf(honest)]).toEqual([45, 'accepted'])
  })
})

describe('§5: what counts as output', () => {
  let deltas: readonly object[] = []
  const usage = { prompt_tokens: 9, completion_tokens: 8, total_tokens: 17 }
  const talker = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      if (request.method === 'GET') return Response.json({ object: 'list', data: [{ id: 'talker', object: 'model' }] })
      const { stream } = (await request.json()) as { readonly stream?: boolean }
      const body = { id: 'x', created: 1, model: 'talker' }
      if (stream !== true) {
        return Response.json({ ...body, usage, choices: [{ index: 0, message: deltas[0], finish_reason: 'stop' }] })
      }
      const events = [
        ...deltas.map((delta) => ({ ...body, choices: [{ index: 0, delta, finish_reason: null }] })),
        {
          ...body,
          ...(deltas.length === 1 ? { usage } : {}),
          choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
        },
      ].map((event) => `data: ${JSON.stringify(event)}\n\n`)
      return new Response(`${events.join('')}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  beforeAll(async () => {
    const owner = await paid.gateway.customer()
    const offered = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
    await paid.gateway.node(`http://127.0.0.1:${talker.port}`, offered)
    await paid.gateway.admin('PUT', '/v1/admin/models', { id: 'talker', completion_token_price_wei: '1000' })
  })
  afterAll(() => talker.stop(true))

  test.each([[false], [true]])(
    'a list of no tool calls, and members that say nothing, do not; stream %p',
    async (stream) => {
      deltas = [{ role: 'assistant', content: '', tool_calls: [], refusal: null, annotations: [], n: 5 }]
      const before = (await paid.account()).balance
      const response = await paid.ask({ model: 'talker', stream })
      const answer = stream ? (await readStream(response)).last : await response.json()
      expect((answer as unknown as Answer).usage.completion_tokens).toBe(0)
      expect((await paid.account()).balance).toBe(before)
    },
  )

  test('of tool calls their texts do, and not the JSON around each piece of them', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '' } }
    const pieces = [...'{"of":"cats"}'].map((text) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] }))
    deltas = [{ role: 'assistant', content: null, tool_calls: [{ index: 0, ...call }] }, ...pieces]
    const { last } = await readStream(await paid.ask({ model: 'talker', stream: true }))
    // 6 + 8 + 4 + 13 characters at 0.3 tokens; no usage came.
    expect((last as unknown as Answer).usage.completion_tokens).toBe(10)
  })
})

test('§14: a rejected receipt gives its customer the debit back', async () => {
  claim('hello', 1_000)
  const before = (await paid.account()).balance
  const { usage, svc } = await answered(false)
  const debit = BigInt(usage.prompt_tokens) * promptPrice + BigInt(usage.completion_tokens) * outputPrice
  expect((await paid.account()).balance).toBe(before - debit)
  const rejected = await paid.gateway.admin('POST', `/v1/admin/receipts/${svc.receipt_hash}/reject`, {})
  expect(rejected).toMatchObject({ status: 'rejected', refunded_wei: debit.toString() })
  expect(await paid.account()).toEqual({ balance: before, reserved: 0n })
})
