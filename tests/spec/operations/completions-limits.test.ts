import { afterEach, describe, expect, test } from 'bun:test'
import { estimateCalls } from '../../../src/actors/operations/completion-calls.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { dayAhead } from '../../support/run/day-ahead.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const model = 'writer'
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const answer = { choices: [{ index: 0, text: 'x', finish_reason: 'stop', logprobs: null }], usage }
let heard: ScriptedCall[] = []
await dayAhead()
const gateway = await fixture(startTestGateway({ env: { SVC_TOTAL_TIMEOUT_MS: '3000', SVC_TTFT_TIMEOUT_MS: '3000' } }))
const node = await fixture(startScriptedNode(model))
complete()

afterEach(() => complete())

function complete(script?: (call: ScriptedCall) => void): void {
  heard = []
  node.answer((call) => {
    heard.push(call)
    if (script !== undefined) return script(call)
    call.respond(200, answer)
  })
}
async function customer(policy: object): Promise<TestCustomer> {
  const made = await gateway.customer({ policy })
  await gateway.node(node.url, { customerId: made.customerId })
  return made
}
const ask = (key: string, body: object, signal?: AbortSignal) =>
  postJson(`${gateway.url}/v1/completions`, key, { model, ...body }, { ...(signal === undefined ? {} : { signal }) })
const codeOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  return [response.status, error.code, error.message] as const
}

describe('§17: a request that is several calls', () => {
  test('reserves the tokens of all of them of the day’s quota, and gives back what they did not use', async () => {
    const reserved = 3 * (estimateCalls({ model, prompt: 'a' }).tokens + 10)
    const { key } = await customer({ daily_token_quota: reserved })
    expect((await codeOf(await ask(key, { prompt: ['a', 'a', 'a'], max_tokens: 11 }))).slice(0, 2)).toEqual([
      429,
      'daily_token_quota_exceeded',
    ])
    expect(heard).toEqual([])
    expect((await ask(key, { prompt: ['a', 'a', 'a'], max_tokens: 10 })).status).toBe(200)
    const left = reserved - 3 * usage.total_tokens
    await waitFor('the rest is back', async () => {
      const response = await ask(key, { prompt: 'a', max_tokens: left - estimateCalls({ model, prompt: 'a' }).tokens })
      return response.status === 200
    })
  })

  test('counts as so many calls of a minute; more than a minute has are refused for good', async () => {
    const { key } = await customer({ rate_limit_rpm: 5 })
    const [status, code, message] = await codeOf(await ask(key, { prompt: ['a', 'b'], n: 3 }))
    expect([status, code]).toEqual([400, 'invalid_request'])
    expect(message).toContain('6 calls')
    expect((await ask(key, { prompt: ['a', 'b'], n: 2 })).status).toBe(200)
    expect((await codeOf(await ask(key, { prompt: ['a', 'b'] }))).slice(0, 2)).toEqual([429, 'rate_limited'])
  })

  test('makes no more calls at once than the account may', async () => {
    const { key } = await customer({ max_concurrency: 1 })
    let open = 0
    let most = 0
    complete((call) => {
      most = Math.max(most, ++open)
      setImmediate(() => {
        open--
        call.respond(200, answer)
      })
    })
    expect((await ask(key, { prompt: 'a', n: 6 })).status).toBe(200)
    expect([heard.length, most]).toEqual([6, 1])
  })

  test('has at most 16 calls open at once', async () => {
    const { key } = await customer({})
    const calls: ScriptedCall[] = []
    const full = Promise.withResolvers<void>()
    complete((call) => {
      calls.push(call)
      if (calls.length === 16) full.resolve()
    })
    const asked = ask(key, { prompt: Array.from({ length: 20 }, (_, at) => String(at)) })
    await full.promise
    const first = calls.shift()
    first?.respond(200, answer)
    await waitFor('the next one is open', async () => calls.length === 16)
    complete((call) => call.respond(200, answer))
    for (const call of calls) call.respond(200, answer)
    expect((await asked).status).toBe(200)
  })

  test('ends all of its calls when its time is over', async () => {
    const { key } = await customer({})
    const gone: Promise<void>[] = []
    complete((call) => void gone.push(call.gone))
    expect((await codeOf(await ask(key, { prompt: ['a', 'b'] }))).slice(0, 2)).toEqual([504, 'upstream_timeout'])
    expect(gone).toHaveLength(2)
    await Promise.all(gone)
  })
})

test('§28: a list makes no more calls at once than free slots are there', async () => {
  await using llama = await scoped(startScriptedNode('slotted', 'llama.cpp', 2))
  const { customerId, key } = await gateway.customer()
  const calls: ScriptedCall[] = []
  const others = Promise.withResolvers<void>()
  llama.answer((call) => {
    calls.push(call)
    if (call.body.prompt !== 'alone') return void setImmediate(() => call.respond(200, answer))
    others.resolve()
  })
  await gateway.node(llama.url, { customerId })
  const alone = ask(key, { model: 'slotted', prompt: 'alone' })
  await others.promise
  // One slot is left: the calls of a list go through it one after the other, and none waits in the line for long.
  expect((await ask(key, { model: 'slotted', prompt: 'a', n: 8, stream: false })).status).toBe(200)
  expect(calls).toHaveLength(9)
  calls[0]?.respond(200, answer)
  expect((await alone).status).toBe(200)
  let open = 0
  let most = 0
  llama.answer((call) => {
    most = Math.max(most, ++open)
    setImmediate(() => {
      open--
      call.respond(200, answer)
    })
  })
  expect((await ask(key, { model: 'slotted', prompt: 'a', n: 8 })).status).toBe(200)
  expect(most).toBeLessThanOrEqual(2)
})

test('§7: each prompt has the context to itself', async () => {
  await using llama = await scoped(startScriptedNode('small', 'llama.cpp'))
  const { customerId, key } = await gateway.customer()
  llama.answer((call) => call.respond(200, answer))
  await gateway.node(llama.url, { customerId })
  await gateway.admin('PUT', '/v1/admin/models', { id: 'small', context_length: 100 })
  const words = 'word '.repeat(60)
  const prompt = [words, words, words, words]
  expect((await ask(key, { model: 'small', prompt })).status).toBe(200)
  const far = ['a', 'word '.repeat(400)]
  expect((await codeOf(await ask(key, { model: 'small', prompt: far }))).slice(0, 2)).toEqual([
    400,
    'context_length_exceeded',
  ])
})
