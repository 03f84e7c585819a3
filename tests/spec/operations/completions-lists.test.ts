import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'

const model = 'writer'
let gateway: TestGateway
let customer: TestCustomer
let client: OpenAI
const nodes: ScriptedNode[] = []
let heard: ScriptedCall[] = []
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  for (let at = 0; at < 2; at++) {
    const node = startScriptedNode(model)
    nodes.push(node)
    await gateway.node(node.url, { customerId: customer.customerId })
  }
  client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})
beforeEach(() => {
  heard = []
  answerAll(complete)
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  await gateway.stop()
})

type Script = (call: ScriptedCall) => void | Promise<void>
const answerAll = (script: Script) => {
  for (const node of nodes) {
    node.answer((call) => {
      heard.push(call)
      return script(call)
    })
  }
}
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const textOf = ({ body }: ScriptedCall) => `${String(body.prompt)}/${String(body.seed ?? '-')}`
const choice = (text: string, finish: string | null = null) => ({
  index: 0,
  text,
  finish_reason: finish,
  logprobs: null,
})
/** Whole or streamed, as it was asked: the prompt and the seed. */
async function complete(call: ScriptedCall): Promise<void> {
  if (call.body.stream !== true) return call.respond(200, { choices: [choice(textOf(call), 'stop')], usage })
  call.open()
  await call.event({ choices: [choice(textOf(call))] })
  await call.event({ choices: [choice('.', 'stop')] })
  await call.event({ choices: [], usage })
  await call.event('[DONE]')
  call.end()
}

const ask = (body: object, init: RequestInit = {}, key = customer.key) =>
  fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...body }),
    ...init,
  })
interface Completion {
  readonly choices: readonly { readonly index: number; readonly text: string; readonly finish_reason: string | null }[]
  readonly usage: object
  readonly svc: { readonly receipt_hashes: readonly string[]; readonly request_id: string }
}
const answerTo = async (body: object) => (await (await ask(body)).json()) as Completion
const textsOf = ({ choices }: Completion) => choices.map(({ index, text }) => [index, text] as const)
const refusal = async (body: object, key?: string) => {
  const response = await ask(body, {}, key)
  const { error } = (await response.json()) as { error: { code: string; param: string; message: string } }
  return [response.status, error.code, error.param, error.message] as const
}
interface Nodes {
  readonly nodes: readonly { readonly in_flight: number }[]
}
const idle = () =>
  waitFor('no call is open', async () => {
    const { nodes: all } = await gateway.admin<Nodes>('GET', '/v1/admin/nodes')
    return all.every(({ in_flight: calls }) => calls === 0)
  })

describe('§28: a list of prompts', () => {
  test('is one call each, and the choices come in the order of the prompts, with the usage of all and a receipt a call', async () => {
    const answer = await answerTo({ prompt: ['a', 'b', 'c'], max_tokens: 5, n: 1 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/-'],
      [1, 'b/-'],
      [2, 'c/-'],
    ])
    expect(answer).toMatchObject({ usage: { prompt_tokens: 9, completion_tokens: 6, total_tokens: 15 } })
    expect(heard.map(({ body }) => body).sort((a, b) => (String(a.prompt) < String(b.prompt) ? -1 : 1))).toEqual(
      ['a', 'b', 'c'].map((prompt) => ({ model, prompt, max_tokens: 5 })),
    )
    expect(answer.svc.receipt_hashes).toHaveLength(3)
    await waitFor('the receipts', async () => {
      const rows = await gateway.database.sql`
        select 1 from receipts where receipt_hash in ${gateway.database.sql([...answer.svc.receipt_hashes])}`
      return rows.length === 3
    })
  })

  test.each([
    ['texts', ['a', 'b'], ['a', 'b']],
    ['lists of tokens', [[1, 2], [3]], [[1, 2], [3]]],
  ])('may be %s', async (_, prompt, sent) => {
    await answerTo({ prompt })
    expect(heard.map(({ body }) => JSON.stringify(body.prompt)).sort()).toEqual(sent.map((one) => JSON.stringify(one)))
  })

  test.each([
    ['a text', ['a']],
    ['a list of tokens', [[1, 2]]],
    ['tokens', [1, 2]],
  ])('of one is one call as it came: %s', async (_, prompt) => {
    const answer = await answerTo({ prompt })
    expect(heard.map(({ body }) => body.prompt)).toEqual([prompt])
    expect(answer.svc).not.toHaveProperty('receipt_hashes')
  })

  test('is shared by two nodes, and a slow answer keeps its place', async () => {
    const everywhere = Promise.withResolvers<void>()
    const busy = new Set<ScriptedNode>()
    let held: (() => void) | null = null
    for (const node of nodes) {
      node.answer(async (call) => {
        busy.add(node)
        if (busy.size === nodes.length) everywhere.resolve()
        if (call.body.prompt === 'a') held = () => void complete(call)
        else await complete(call)
      })
    }
    const asked = answerTo({ prompt: ['a', 'b', 'c', 'd'] })
    await everywhere.promise
    await waitFor('the first is asked', async () => held !== null)
    ;(held as unknown as () => void)()
    expect(textsOf(await asked).map(([, text]) => text)).toEqual(['a/-', 'b/-', 'c/-', 'd/-'])
  })
})

describe('§28: n answers to a prompt', () => {
  test('are a call each, prompt by prompt; the seed goes up by one', async () => {
    const answer = await answerTo({ prompt: ['a', 'b'], n: 2, seed: 7 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/7'],
      [1, 'a/8'],
      [2, 'b/7'],
      [3, 'b/8'],
    ])
    expect(heard.filter(({ body }) => 'n' in body || 'best_of' in body)).toEqual([])
  })

  test('without a seed none is sent', async () => {
    expect(textsOf(await answerTo({ prompt: 'a', n: 2 }))).toEqual([
      [0, 'a/-'],
      [1, 'a/-'],
    ])
  })
})

describe('§28: best_of', () => {
  const likely = (logprobs: (call: ScriptedCall) => object | null) =>
    answerAll((call) =>
      call.respond(200, { choices: [{ ...choice(textOf(call), 'stop'), logprobs: logprobs(call) }], usage }),
    )
  /** Of the seeds 1, 2 and 3 the third is the likeliest, then the first. */
  const means: Readonly<Record<string, number>> = { 1: -2, 2: -3, 3: -1 }
  const meanOf = ({ body }: ScriptedCall) => means[String(body.seed)] ?? 0

  test.each([
    ['as OpenAI and vLLM tell them', (mean: number) => ({ token_logprobs: [null, mean - 1, mean + 1] })],
    ['as llama.cpp tells them', (mean: number) => ({ content: [{ logprob: mean }, { logprob: mean }] })],
  ])('gives the likeliest first, and the usage of all of them: %s', async (_, told) => {
    likely((call) => told(meanOf(call)))
    const answer = await answerTo({ prompt: 'a', n: 2, best_of: 3, seed: 1 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/3'],
      [1, 'a/1'],
    ])
    expect(answer.choices).toMatchObject([{ logprobs: null }, { logprobs: null }])
    expect(answer.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 6 })
    expect(heard.map(({ body }) => body.logprobs)).toEqual([1, 1, 1])
  })

  test('probabilities that the client asked for stay', async () => {
    likely((call) => ({ token_logprobs: [meanOf(call)] }))
    const answer = await answerTo({ prompt: 'a', best_of: 2, seed: 1, logprobs: 3 })
    expect(answer.choices).toMatchObject([{ text: 'a/1', logprobs: { token_logprobs: [-2] } }])
    expect(heard.map(({ body }) => body.logprobs)).toEqual([3, 3])
  })

  test('of a node without log probabilities is refused, as nothing can be compared', async () => {
    likely(() => null)
    expect(await refusal({ prompt: 'a', best_of: 2 })).toEqual([
      400,
      'invalid_request',
      'best_of',
      expect.stringContaining('tells no log probabilities'),
    ])
  })

  test('as many as n needs none', async () => {
    expect((await answerTo({ prompt: 'a', n: 2, best_of: 2 })).choices).toHaveLength(2)
    expect(heard.filter(({ body }) => 'logprobs' in body)).toEqual([])
  })
})

describe('§28: what is refused before a node hears of it', () => {
  test.each([
    ['fewer best_of than n', { prompt: 'a', n: 3, best_of: 2 }, 'best_of', 'at least n, which is 3'],
    ['best_of in a stream', { prompt: 'a', best_of: 2, stream: true }, 'best_of', 'cannot be streamed'],
    ['n of 17', { prompt: 'a', n: 17 }, 'n', '16'],
    ['best_of of 17', { prompt: 'a', best_of: 17 }, 'best_of', '16'],
    ['129 answers', { prompt: Array.from({ length: 43 }, (_, at) => String(at)), n: 3 }, 'prompt', 'at most 128'],
    ['a mixed list', { prompt: ['a', 1] }, 'prompt', 'of one kind'],
    ['an empty list', { prompt: [] }, 'prompt', ''],
  ])('a request that no call can be made of: %s', async (_, body, param, words) => {
    expect(await refusal(body)).toEqual([400, 'invalid_request', param, expect.stringContaining(words)])
    expect(heard).toEqual([])
  })

  test('128 answers are given', async () => {
    const { choices } = await answerTo({ prompt: Array.from({ length: 64 }, (_, at) => String(at)), n: 2 })
    expect(choices.map(({ index, text }) => [index, text])).toEqual(
      Array.from({ length: 128 }, (__, at) => [at, `${Math.floor(at / 2)}/-`]),
    )
  })
})

describe('§28: a stream of several answers', () => {
  test('the SDK gets each text by its index, one finish each, and the usage of all at the end', async () => {
    const texts = ['', '', '', '']
    const finished: number[] = []
    const last: unknown[] = []
    const stream = await client.completions.create({
      model,
      prompt: ['a', 'b'],
      n: 2,
      seed: 1,
      stream: true,
      stream_options: { include_usage: true },
    })
    for await (const chunk of stream) {
      for (const { index, text, finish_reason: reason } of chunk.choices) {
        texts[index] += text
        if (reason !== null) finished.push(index)
      }
      if (chunk.choices.length === 0) last.push(chunk.usage)
    }
    expect(texts).toEqual(['a/1.', 'a/2.', 'b/1.', 'b/2.'])
    expect(finished.sort()).toEqual([0, 1, 2, 3])
    expect(last).toEqual([{ prompt_tokens: 12, completion_tokens: 8, total_tokens: 20 }])
  })

  test('where the usage is not apart, the answer that ends last brings it', async () => {
    const text = await (await ask({ prompt: ['a', 'b'], stream: true })).text()
    const events = text.split('\n\n').filter((event) => event.startsWith('data: {'))
    const told = events.map((event) => JSON.parse(event.slice(6)) as Completion)
    expect(told.filter(({ usage: all }) => all !== undefined)).toMatchObject([
      {
        usage: { total_tokens: 10 },
        choices: [{ finish_reason: 'stop' }],
        svc: { receipt_hashes: [/^0x/, /^0x/].map((hash) => expect.stringMatching(hash)) },
      },
    ])
    expect(told.at(-1)?.usage).toBeDefined()
    expect(new Set(told.map((chunk) => (chunk as unknown as { id: string }).id)).size).toBe(1)
    expect(text).toEndWith('data: [DONE]\n\n')
  })

  test('a node that fails in the middle ends it with one error, and stops the others', async () => {
    const gone: Promise<void>[] = []
    const going = Promise.withResolvers<void>()
    answerAll(async (call) => {
      call.open()
      await call.event({ choices: [choice('x')] })
      if (call.body.prompt === 'b') {
        await going.promise
        return call.cut('reset')
      }
      gone.push(call.gone)
      if (gone.length === 2) going.resolve()
    })
    const text = await (await ask({ prompt: ['a', 'b', 'c'], stream: true })).text()
    expect(text.split('"error":').length - 1).toBe(1)
    expect(text).toContain('The node stopped responding.')
    expect(text).not.toContain('[DONE]')
    await Promise.all(gone)
    await idle()
  })

  test('no node answers at all: a plain error before the status', async () => {
    answerAll((call) => call.respond(500, { error: { message: 'no' } }))
    expect((await refusal({ prompt: ['a', 'b'], stream: true })).slice(0, 2)).toEqual([502, 'upstream_error'])
    await idle()
  })

  test('a client that leaves stops all nodes', async () => {
    const leaving = new AbortController()
    const gone: Promise<void>[] = []
    const everywhere = Promise.withResolvers<void>()
    answerAll(async (call) => {
      call.open()
      await call.event({ choices: [choice('x')] })
      gone.push(call.gone)
      if (gone.length === 3) everywhere.resolve()
    })
    const response = await ask({ prompt: ['a', 'b', 'c'], stream: true }, { signal: leaving.signal })
    await response.body?.getReader().read()
    await everywhere.promise
    leaving.abort()
    await Promise.all(gone)
    await idle()
    const id = response.headers.get('x-request-id')
    await waitFor('the record', async () => {
      const told = await gateway.admin<{ request?: { status: number } }>('GET', `/v1/admin/requests/${id}`)
      return told.request?.status === 499
    })
  })

  test('one call that fails before its first text goes to the other node in silence', async () => {
    let failures = 0
    answerAll((call) => (call.body.prompt === 'b' && failures++ === 0 ? call.respond(503, {}) : complete(call)))
    const text = await (await ask({ prompt: ['a', 'b'], stream: true })).text()
    expect(text).toContain('b/-')
    expect(text).not.toContain('"error"')
    expect(failures).toBe(2)
  })
})

describe('§28: a whole answer of several calls', () => {
  test('the SDK gets it', async () => {
    const { choices, usage: all } = await client.completions.create({ model, prompt: ['a', 'b'], n: 2, seed: 1 })
    expect(choices.map(({ text }) => text)).toEqual(['a/1', 'a/2', 'b/1', 'b/2'])
    expect(all).toMatchObject({ prompt_tokens: 12, completion_tokens: 8, total_tokens: 20 })
  })

  test('a call that one node fails goes to the other one', async () => {
    let failures = 0
    answerAll((call) => (call.body.prompt === 'b' && failures++ === 0 ? call.respond(500, {}) : complete(call)))
    expect(textsOf(await answerTo({ prompt: ['a', 'b', 'c'] })).map(([, text]) => text)).toEqual(['a/-', 'b/-', 'c/-'])
    expect(failures).toBe(2)
  })

  test('a call that no node can do fails all, and stops the others', async () => {
    const gone: Promise<void>[] = []
    const others = Promise.withResolvers<void>()
    answerAll(async (call) => {
      if (call.body.prompt === 'b') {
        await others.promise
        return call.respond(400, { error: { message: 'prompt b is bad', type: 'BadRequestError' } })
      }
      gone.push(call.gone)
      if (gone.length === 2) others.resolve()
    })
    expect(await refusal({ prompt: ['a', 'b', 'c'] })).toEqual([
      400,
      'invalid_request',
      null,
      'prompt b is bad',
    ] as never)
    await Promise.all(gone)
    await idle()
  })

  test('a client that leaves stops all nodes', async () => {
    const leaving = new AbortController()
    const gone: Promise<void>[] = []
    const everywhere = Promise.withResolvers<void>()
    answerAll((call) => {
      gone.push(call.gone)
      if (gone.length === 3) everywhere.resolve()
    })
    const asked = ask({ prompt: ['a', 'b', 'c'] }, { signal: leaving.signal }).catch(() => null)
    await everywhere.promise
    leaving.abort()
    await Promise.all(gone)
    await asked
    await idle()
  })
})
