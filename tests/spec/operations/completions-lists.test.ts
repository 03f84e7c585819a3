import { beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import {
  choice,
  complete,
  completionModel as model,
  startCompletionGateway,
  textOf,
  textsOf,
  usage,
} from '../../support/gateways/completion-gateway.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import type { ScriptedCall, ScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startCompletionGateway())
const client = new OpenAI({ apiKey: pool.customer.key, baseURL: `${pool.gateway.url}/v1`, maxRetries: 0 })

beforeEach(() => pool.answerAll(complete))

describe('§28: a list of prompts', () => {
  test('is one call each, and the choices come in the order of the prompts, with the usage of all and a receipt a call', async () => {
    const answer = await pool.answerTo({ prompt: ['a', 'b', 'c'], max_tokens: 5, n: 1 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/-'],
      [1, 'b/-'],
      [2, 'c/-'],
    ])
    expect(answer).toMatchObject({ usage: { prompt_tokens: 9, completion_tokens: 6, total_tokens: 15 } })
    expect(pool.heard.map(({ body }) => body).sort((a, b) => (String(a.prompt) < String(b.prompt) ? -1 : 1))).toEqual(
      ['a', 'b', 'c'].map((prompt) => ({ model, prompt, max_tokens: 5 })),
    )
    expect(answer.svc.receipt_hashes).toHaveLength(3)
    await waitFor('the receipts', async () => {
      const rows = await pool.gateway.database.sql`
        select 1 from receipts where receipt_hash in ${pool.gateway.database.sql([...answer.svc.receipt_hashes])}`
      return rows.length === 3
    })
  })

  test.each([
    ['texts', ['a', 'b'], ['a', 'b']],
    ['lists of tokens', [[1, 2], [3]], [[1, 2], [3]]],
  ])('may be %s', async (_, prompt, sent) => {
    await pool.answerTo({ prompt })
    expect(pool.heard.map(({ body }) => JSON.stringify(body.prompt)).sort()).toEqual(
      sent.map((one) => JSON.stringify(one)),
    )
  })

  test.each([
    ['a text', ['a']],
    ['a list of tokens', [[1, 2]]],
    ['tokens', [1, 2]],
  ])('of one is one call as it came: %s', async (_, prompt) => {
    const answer = await pool.answerTo({ prompt })
    expect(pool.heard.map(({ body }) => body.prompt)).toEqual([prompt])
    expect(answer.svc).not.toHaveProperty('receipt_hashes')
  })

  test('is shared by two nodes, and a slow answer keeps its place', async () => {
    // Where one of them was just late for a poll, the other does all.
    await waitFor('both to take part', async () => {
      const asked = new Set<ScriptedNode>()
      const others = Promise.withResolvers<void>()
      let left = 3
      for (const node of pool.nodes) {
        node.answer(async (call) => {
          asked.add(node)
          if (call.body.prompt === 'a') await others.promise
          await complete(call)
          if (call.body.prompt !== 'a' && --left === 0) others.resolve()
        })
      }
      const answer = await pool.answerTo({ prompt: ['a', 'b', 'c', 'd'] })
      expect(textsOf(answer).map(([, text]) => text)).toEqual(['a/-', 'b/-', 'c/-', 'd/-'])
      return asked.size === pool.nodes.length
    })
  })
})

describe('§28: n answers to a prompt', () => {
  test('are a call each, prompt by prompt; the seed goes up by one', async () => {
    const answer = await pool.answerTo({ prompt: ['a', 'b'], n: 2, seed: 7 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/7'],
      [1, 'a/8'],
      [2, 'b/7'],
      [3, 'b/8'],
    ])
    expect(pool.heard.filter(({ body }) => 'n' in body || 'best_of' in body)).toEqual([])
  })

  test('without a seed none is sent', async () => {
    expect(textsOf(await pool.answerTo({ prompt: 'a', n: 2 }))).toEqual([
      [0, 'a/-'],
      [1, 'a/-'],
    ])
  })
})

describe('§28: best_of', () => {
  const likely = (logprobs: (call: ScriptedCall) => object | null) =>
    pool.answerAll((call) =>
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
    const answer = await pool.answerTo({ prompt: 'a', n: 2, best_of: 3, seed: 1 })
    expect(textsOf(answer)).toEqual([
      [0, 'a/3'],
      [1, 'a/1'],
    ])
    expect(answer.choices).toMatchObject([{ logprobs: null }, { logprobs: null }])
    expect(answer.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 6 })
    expect(pool.heard.map(({ body }) => body.logprobs)).toEqual([1, 1, 1])
  })

  test('probabilities that the client asked for stay', async () => {
    likely((call) => ({ token_logprobs: [meanOf(call)] }))
    const answer = await pool.answerTo({ prompt: 'a', best_of: 2, seed: 1, logprobs: 3 })
    expect(answer.choices).toMatchObject([{ text: 'a/1', logprobs: { token_logprobs: [-2] } }])
    expect(pool.heard.map(({ body }) => body.logprobs)).toEqual([3, 3])
  })

  test('of a node without log probabilities is refused, as nothing can be compared', async () => {
    likely(() => null)
    expect(await pool.refusal({ prompt: 'a', best_of: 2 })).toEqual([
      400,
      'invalid_request',
      'best_of',
      expect.stringContaining('tells no log probabilities'),
    ])
  })

  test('as many as n needs none', async () => {
    expect((await pool.answerTo({ prompt: 'a', n: 2, best_of: 2 })).choices).toHaveLength(2)
    expect(pool.heard.filter(({ body }) => 'logprobs' in body)).toEqual([])
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
    expect(await pool.refusal(body)).toEqual([400, 'invalid_request', param, expect.stringContaining(words)])
    expect(pool.heard).toEqual([])
  })

  test('128 answers are given', async () => {
    const { choices } = await pool.answerTo({ prompt: Array.from({ length: 64 }, (_, at) => String(at)), n: 2 })
    expect(choices.map(({ index, text }) => [index, text])).toEqual(
      Array.from({ length: 128 }, (__, at) => [at, `${Math.floor(at / 2)}/-`]),
    )
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
    pool.answerAll((call) => (call.body.prompt === 'b' && failures++ === 0 ? call.respond(500, {}) : complete(call)))
    expect(textsOf(await pool.answerTo({ prompt: ['a', 'b', 'c'] })).map(([, text]) => text)).toEqual([
      'a/-',
      'b/-',
      'c/-',
    ])
    expect(failures).toBe(2)
  })

  test('a call that no node can do fails all, and stops the others', async () => {
    const gone: Promise<void>[] = []
    const others = Promise.withResolvers<void>()
    pool.answerAll(async (call) => {
      if (call.body.prompt === 'b') {
        await others.promise
        return call.respond(400, { error: { message: 'prompt b is bad', type: 'BadRequestError' } })
      }
      gone.push(call.gone)
      if (gone.length === 2) others.resolve()
    })
    expect(await pool.refusal({ prompt: ['a', 'b', 'c'] })).toEqual([
      400,
      'invalid_request',
      null,
      'prompt b is bad',
    ] as never)
    await Promise.all(gone)
    await pool.idle()
  })

  test('a client that leaves stops all nodes', async () => {
    const leaving = new AbortController()
    const gone: Promise<void>[] = []
    const everywhere = Promise.withResolvers<void>()
    pool.answerAll((call) => {
      gone.push(call.gone)
      if (gone.length === 3) everywhere.resolve()
    })
    const asked = pool.ask({ prompt: ['a', 'b', 'c'] }, { signal: leaving.signal }).catch(() => null)
    await everywhere.promise
    leaving.abort()
    await Promise.all(gone)
    await asked
    await pool.idle()
  })
})
