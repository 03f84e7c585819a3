import { describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import type { Fault } from '../../../src/fake-node/faults.ts'
import { OpenAiErrorBody } from '../../../src/protocol/wire/admin/report.ts'
import { ChatCompletion } from '../../../src/protocol/wire/inference/chat.ts'
import {
  answerOf,
  expert,
  type MemberName,
  type MixtureBody,
  type MixturePool,
  secret,
  shareMixturePool,
  synthesize,
  type Trace,
  type TraceEntry,
  traceEntry,
  unplaced,
  unused,
  usageOf,
  usageSum,
  vote,
  weighted,
} from '../../support/pools/mixture-pool.ts'
import { waitFor } from '../../support/run/wait-until.ts'

let pool: MixturePool
shareMixturePool((started) => {
  pool = started
})

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((model) => expert(model)) as [object, object, object, object]
const fails = (...names: readonly MemberName[]) => {
  for (const name of names) pool.nodes[name].setFaults({ kind: 'status500' })
}
const says = (name: MemberName, text: string) => pool.nodes[name].setAnswer({ text })
const failed = (name: MemberName, more: Partial<TraceEntry> = {}) =>
  traceEntry(pool, name, { status: 'upstream_error', ...unused, ...more })
const ok = (...names: readonly MemberName[]) => names.map((name) => traceEntry(pool, name))
interface Refused {
  readonly error: {
    readonly code: string
    readonly type: string
    readonly param: string | null
    readonly svc: { readonly mixture: Trace; readonly [field: string]: unknown }
  }
}

/** The 503 of a quorum that was not met, with all that §2 and §3 say of it. */
async function quorumMissed(mixture: MixtureBody, body: object = {}): Promise<Trace> {
  const response = await pool.mix(mixture, { body })
  const text = await response.text()
  expect(text).not.toContain(secret)
  for (const name of ['a', 'b', 'c', 'd'] as const) expect(text).not.toContain(answerOf(name))
  const refused = JSON.parse(text) as Refused
  expect([response.status, refused.error?.code]).toEqual([503, 'mixture_quorum_not_met'])
  expect([...Value.Errors(OpenAiErrorBody, refused)]).toEqual([])
  expect(response.headers.get('x-should-retry')).toBe('false')
  expect(response.headers.get('retry-after')).toBe('5')
  expect(response.headers.get('content-type')).toStartWith('application/json')
  expect(refused.error.type).toBe('service_unavailable_error')
  expect(refused.error.svc).toMatchObject({
    request_id: response.headers.get('x-request-id'),
    status: 503,
    retryable: false,
    retry_after_seconds: 5,
  })
  return refused.error.svc.mixture
}

describe('the answer of a mixture', () => {
  test('has the keys of any answer, and a trace of metadata alone', async () => {
    const response = await pool.mix(synthesize(a, b))
    const text = await response.text()
    const answer = JSON.parse(text)
    expect(response.status).toBe(200)
    expect([...Value.Errors(ChatCompletion, answer)]).toEqual([])
    expect(Object.keys(answer).sort()).toEqual(['choices', 'created', 'id', 'model', 'object', 'svc', 'usage'])
    expect(answer.id).toMatch(/^chatcmpl-[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(answer.object).toBe('chat.completion')
    expect(answer.choices).toEqual([
      { index: 0, message: { role: 'assistant', content: answerOf('agg') }, finish_reason: 'stop' },
    ])
    expect(Object.keys(answer.svc).sort()).toEqual(
      ['latency_ms', 'mixture', 'receipt_hash', 'request_id', 'runtime_id', 'runtime_kind', 'ttft_ms'].sort(),
    )
    expect(answer.svc.mixture).toEqual({
      strategy: 'synthesize',
      degraded: false,
      experts: ok('a', 'b', 'agg'),
    })
    for (const name of ['a', 'b'] as const) expect(text).not.toContain(answerOf(name))
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('x-should-retry')).toBeNull()
  })

  test('rule 5 of chat: without `svc.mixture` there is no trace', async () => {
    const response = await pool.gateway.chat(pool.customer.key, {
      model: 'a',
      messages: [{ role: 'user', content: 'x' }],
    })
    expect('mixture' in ((await response.json()) as { svc: object }).svc).toBe(false)
  })

  test.each([
    ['synthesize', 'agg'],
    ['vote', 'council'],
    ['weighted', 'council'],
  ] as const)('model: for %s %s', async (strategy, model) => {
    expect((await pool.answered({ ...synthesize(a, b), strategy })).model).toBe(model)
  })

  test('finish_reason comes from the call that answers', async () => {
    pool.nodes.b.setAnswer({ finishReason: 'length' })
    const { choices } = await pool.answered(weighted(a, expert('b', 2)))
    expect(choices[0]?.finish_reason).toBe('length')
  })
})

describe('usage', () => {
  test('synthesize: the sum over experts and aggregator', async () => {
    expect((await pool.answered(synthesize(a, b, c))).usage).toEqual(usageSum('a', 'b', 'c', 'agg'))
  })

  test('vote and weighted: over all experts, not the winner’s alone', async () => {
    expect((await pool.answered(vote(a, b, c))).usage).toEqual(usageSum('a', 'b', 'c'))
    expect((await pool.answered(weighted(a, b))).usage).toEqual(usageSum('a', 'b'))
  })

  test('§7: an expert that failed and said what it used counts; one that said nothing does not', async () => {
    says('b', '')
    fails('c')
    const { usage, svc } = await pool.answered(weighted(a, b, c))
    expect(usage).toEqual(usageSum('a', 'b'))
    expect(svc.mixture.experts).toEqual([
      traceEntry(pool, 'a'),
      traceEntry(pool, 'b', { status: 'upstream_error' }),
      failed('c'),
    ])
  })

  test('§5: what a machine does not report is estimated, and said so', async () => {
    pool.nodes.b.setFaults({ kind: 'noUsage' })
    const { usage, svc } = await pool.answered(vote(a, b))
    const [, estimated] = svc.mixture.experts
    expect(svc.usage_estimated).toBe(true)
    expect(estimated?.usage.total_tokens).toBeGreaterThan(5)
    expect(usage.total_tokens).toBe(usageOf('a').total_tokens + (estimated?.usage.total_tokens ?? 0))
  })
})

describe('svc and receipts', () => {
  const runtimeOf = async (name: MemberName) => {
    const path = `/v1/admin/nodes/${pool.nodeId(name)}`
    const shown = await pool.gateway.admin<{ runtimes: { runtime_id: string }[] }>('GET', path)
    return shown.runtimes[0]?.runtime_id ?? ''
  }
  const receipt = async (where: { readonly hash: string } | { readonly requestId: string }) => {
    const { sql } = pool.gateway.database
    const find = () =>
      'hash' in where
        ? sql`select * from receipts where receipt_hash = ${where.hash}`
        : sql`select * from receipts where request_id = ${where.requestId}`
    return waitFor('the receipt', async () => {
      const rows = await find()
      return rows.length > 0 ? rows : null
    })
  }

  const cases: readonly (readonly [string, () => MixtureBody, MemberName])[] = [
    ['synthesize', () => synthesize(a, b), 'agg'],
    ['vote', () => vote(a, expert('b', 2), c), 'b'],
    ['weighted', () => weighted(a, b, expert('c', 2)), 'c'],
  ]
  test.each(cases.map((row) => [...row] as const))(
    '%s: runtime and receipt are those of the call that answers, the request id that of the request',
    async (_strategy, mixture, winner) => {
      const response = await pool.mix(mixture())
      const { svc } = (await response.json()) as { svc: { [field: string]: string } }
      expect(svc.request_id).toBe(response.headers.get('x-request-id') ?? '')
      expect([svc.runtime_id, svc.runtime_kind]).toEqual([await runtimeOf(winner), 'openai'])
      expect(Number(svc.latency_ms)).toBeGreaterThanOrEqual(Number(svc.ttft_ms))
      const [row] = await receipt({ hash: svc.receipt_hash ?? '' })
      expect(row).toMatchObject({ node_id: pool.nodeId(winner), model_id: winner, kind: 'hosted_chat' })
    },
  )

  test('each sub-call has a request id and a receipt of its own', async () => {
    const { svc } = await pool.answered(synthesize(a, b), { svc: { job_id: 'job-of-the-mixture' } })
    const calls = (['a', 'b', 'agg'] as const).flatMap((name) =>
      pool.received(name).map(({ headers }) => [name, headers['x-svc-request-id'] ?? ''] as const),
    )
    expect(calls.map(([name]) => name)).toEqual(['a', 'b', 'agg'])
    expect(new Set([svc.request_id, ...calls.map(([, id]) => id)]).size).toBe(4)
    for (const [name, requestId] of calls) {
      const rows = await receipt({ requestId })
      expect(rows).toHaveLength(1)
      expect(rows[0]).toMatchObject({
        issuer: 'gateway',
        kind: 'hosted_chat',
        node_id: pool.nodeId(name),
        model_id: name,
        prompt_tokens: usageOf(name).prompt_tokens,
        completion_tokens: usageOf(name).completion_tokens,
        customer_id: pool.customer.customerId,
        job_id: 'job-of-the-mixture',
        status: 'accepted',
      })
    }
  })

  test('a failed expert that gave no answer has no receipt', async () => {
    fails('b')
    await pool.answered(vote(a, b))
    const [call] = pool.received('b')
    const [good] = pool.received('a')
    expect(await receipt({ requestId: good?.headers['x-svc-request-id'] ?? '' })).toHaveLength(1)
    const { sql } = pool.gateway.database
    expect(
      await sql`select 1 from receipts where request_id = ${call?.headers['x-svc-request-id'] ?? ''}`,
    ).toHaveLength(0)
  })
})

describe('what a sub-call can come to', () => {
  const faults: readonly (readonly [string, Fault])[] = [
    ['HTTP 500', { kind: 'status500' }],
    ['HTTP 429', { kind: 'status429' }],
    ['HTTP 400', { kind: 'status400' }],
    ['an error under HTTP 200', { kind: 'jsonErrorBody' }],
    ['no JSON', { kind: 'malformedLine' }],
    ['a body cut off', { kind: 'dropMidStream' }],
    ['a reset', { kind: 'failAfter', ms: 1, as: 'reset' }],
  ]
  test.each(faults.map((row) => [...row] as const))('upstream_error: %s', async (_what, fault) => {
    pool.nodes.b.setFaults(fault)
    const { svc } = await pool.answered(vote(a, b, c))
    expect(svc.mixture).toEqual({
      strategy: 'vote',
      degraded: true,
      experts: [traceEntry(pool, 'a'), failed('b'), traceEntry(pool, 'c')],
    })
    expect(pool.calls()).toEqual({ a: 1, b: 1, c: 1 })
  })

  test.each([[''], ['   \n'], ['<think>nothing to say</think>']])(
    'upstream_error: the empty answer %j',
    async (text) => {
      says('b', text)
      const { svc } = await pool.answered(vote(a, b))
      expect(svc.mixture.experts[1]).toEqual(traceEntry(pool, 'b', { status: 'upstream_error' }))
      expect(svc.mixture.degraded).toBe(true)
    },
  )

  test.each([
    ['a model that nobody has', 'nobody-has-it'],
    ['a model that only others have', 'theirs'],
  ])('no_node: %s', async (_what, model) => {
    const { svc } = await pool.answered(vote(a, expert(model)))
    expect(svc.mixture).toEqual({
      strategy: 'vote',
      degraded: true,
      experts: [traceEntry(pool, 'a'), unplaced('expert', model)],
    })
  })

  test('no_node: a machine outside the key’s scope', async () => {
    const { key } = await pool.gateway
      .admin<{ key: string; gateway_key: string }>('POST', `/v1/admin/customers/${pool.customer.customerId}/keys`, {
        name: 'narrow',
        node_scope: [pool.nodeId('a')],
      })
      .then(({ gateway_key: key }) => ({ key }))
    const { svc } = await pool.answered(vote(a, b), { key })
    expect(svc.mixture.experts).toEqual([traceEntry(pool, 'a'), unplaced('expert', 'b')])
    expect(pool.calls()).toEqual({ a: 1 })
  })

  test('no_node: a machine that is drained', async () => {
    const path = `/v1/admin/nodes/${pool.nodeId('e')}`
    await pool.gateway.admin('POST', `${path}/drain`)
    try {
      const { svc } = await pool.answered(vote(a, expert('e')))
      expect(svc.mixture.experts).toEqual([traceEntry(pool, 'a'), unplaced('expert', 'e')])
    } finally {
      await pool.gateway.admin('POST', `${path}/resume`)
    }
    for (let state = ''; state !== 'ready'; ) state = (await pool.gateway.admin<{ state: string }>('GET', path)).state
  })

  test('a missing top-level model is no matter; an expert’s never makes a 404', async () => {
    const trace = await quorumMissed(vote(expert('nobody-has-it')))
    expect(trace.experts).toEqual([unplaced('expert', 'nobody-has-it')])
  })
})

describe('quorum', () => {
  test.each([
    ['vote', 1, 0],
    ['vote', 2, 1],
    ['vote', 3, 1],
    ['vote', 4, 2],
    ['weighted', 4, 3],
    ['synthesize', 4, 3],
  ] as const)('default of %s with %i experts: %i may fail', async (strategy, count, mayFail) => {
    const all = ['a', 'b', 'c', 'd'] as const
    const experts = all.slice(0, count)
    const mixture = { ...synthesize(...experts.map((name) => expert(name))), strategy }
    fails(...experts.slice(0, mayFail))
    const { svc } = await pool.answered(mixture)
    expect(svc.mixture.degraded).toBe(mayFail > 0)
    fails(...experts.slice(0, mayFail + 1))
    const trace = await quorumMissed(mixture)
    expect(trace.experts.map(({ model, status }) => [model, status])).toEqual(
      experts.map((name, at) => [name, at <= mayFail ? 'upstream_error' : 'ok']),
    )
  })

  test('min_experts of all: one failure is enough', async () => {
    fails('c')
    const trace = await quorumMissed({ ...weighted(a, b, c), min_experts: 3 })
    expect(trace).toMatchObject({ strategy: 'weighted', experts: [...ok('a', 'b'), failed('c')] })
    expect((await pool.answered({ ...weighted(a, b, c), min_experts: 2 })).svc.mixture.degraded).toBe(true)
  })

  test('missed: the aggregator is not asked, nothing is tried again or elsewhere', async () => {
    fails('a', 'b')
    const trace = await quorumMissed(synthesize(a, b))
    expect(trace).toMatchObject({ strategy: 'synthesize', experts: [failed('a'), failed('b')] })
    expect(trace.experts.every(({ role }) => role === 'expert')).toBe(true)
    expect(pool.calls()).toEqual({ a: 1, b: 1 })
  })

  test('missed on a stream: a real 503, no stream', async () => {
    fails('a')
    await quorumMissed(vote(a), { stream: true })
  })
})

describe('synthesize', () => {
  test('one expert failed: degraded, and the aggregator answers', async () => {
    fails('b')
    const answer = await pool.answered(synthesize(a, b))
    expect(answer.choices[0]?.message.content).toBe(answerOf('agg'))
    expect(answer.svc.mixture).toEqual({
      strategy: 'synthesize',
      degraded: true,
      experts: [traceEntry(pool, 'a'), failed('b'), traceEntry(pool, 'agg')],
    })
  })

  test('the aggregator fails: 200, degraded, the top-weighted surviving expert verbatim, the model stays', async () => {
    fails('agg', 'd')
    const mixture = synthesize(a, expert('b', 3), expert('c', 3), expert('d', 9))
    const answer = await pool.answered(mixture)
    expect([answer.model, answer.choices[0]?.message.content]).toEqual(['agg', answerOf('b')])
    expect(answer.svc.mixture).toMatchObject({ strategy: 'synthesize', degraded: true })
    expect(answer.svc.mixture.experts).toEqual([
      ...ok('a', 'b', 'c'),
      failed('d'),
      failed('agg', { role: 'aggregator' }),
    ])
    expect(answer.usage).toEqual(usageSum('a', 'b', 'c'))
    expect(pool.calls()).toEqual({ a: 1, b: 1, c: 1, d: 1, agg: 1 })
  })

  test('the aggregator answers nothing: likewise, its tokens count', async () => {
    says('agg', '')
    const answer = await pool.answered(synthesize(a, b))
    expect(answer.choices[0]?.message.content).toBe(answerOf('a'))
    expect(answer.svc.mixture.experts[2]).toEqual(traceEntry(pool, 'agg', { status: 'upstream_error' }))
    expect(answer.usage).toEqual(usageSum('a', 'b', 'agg'))
  })

  test('no machine for the aggregator: likewise', async () => {
    const answer = await pool.answered({ ...synthesize(a, expert('b', 2)), aggregator: { model: 'nobody-has-it' } })
    expect([answer.model, answer.choices[0]?.message.content]).toEqual(['nobody-has-it', answerOf('b')])
    expect(answer.svc.mixture).toEqual({
      strategy: 'synthesize',
      degraded: true,
      experts: [...ok('a', 'b'), unplaced('aggregator', 'nobody-has-it')],
    })
  })

  test('the aggregator may be one of the experts', async () => {
    const { svc } = await pool.answered({ ...synthesize(a, b), aggregator: { model: 'a' } })
    expect(svc.mixture.experts.map(({ role, model, status }) => [role, model, status])).toEqual([
      ['expert', 'a', 'ok'],
      ['expert', 'b', 'ok'],
      ['aggregator', 'a', 'ok'],
    ])
    expect(pool.calls()).toEqual({ a: 2, b: 1 })
  })
})

describe('weighted', () => {
  const rows: readonly (readonly [string, readonly (readonly [MemberName, number?])[], MemberName, MemberName[]?])[] = [
    ['the highest weight', [['a'], ['b', 3], ['c', 2]], 'b'],
    ['the default weight is 1', [['a', 0.9], ['b']], 'b'],
    ['of equal weights the first', [['c', 2], ['a', 2], ['b']], 'c'],
    ['without weights the first', [['b'], ['a']], 'b'],
    ['the highest failed: the next', [['a'], ['b', 3], ['c', 2]], 'c', ['b']],
    [
      'it and a tie behind it: the first of the tie',
      [
        ['a', 2],
        ['b', 3],
        ['c', 2],
      ],
      'a',
      ['b'],
    ],
  ]
  test.each(rows.map((row) => [row[0], row] as const))('%s', async (_what, [, experts, winner, broken = []]) => {
    fails(...broken)
    const { choices, svc } = await pool.answered(weighted(...experts.map(([name, weight]) => expert(name, weight))))
    expect([choices[0]?.message.content, svc.mixture.degraded]).toEqual([answerOf(winner), broken.length > 0])
    // All run, one is used.
    expect(Object.values(pool.calls())).toEqual(experts.map(() => 1))
  })
})

describe('vote', () => {
  type Said = readonly (readonly [text: string, weight?: number])[]
  const names = ['a', 'b', 'c', 'd'] as const
  const rows: readonly (readonly [string, Said, number])[] = [
    ['two against one', [['London'], ['Paris'], ['Paris']], 1],
    ['a weight against two', [['London', 3], ['Paris'], ['Paris']], 0],
    ['the heaviest member speaks for all that match', [['paris'], ['PARIS', 2], ['London', 2]], 1],
    ['of equal members the first speaks, verbatim', [['The **Paris**.'], ['paris'], ['London']], 0],
    [
      '0.1 + 0.2 ties with 0.3, and more members win',
      [
        ['London', 0.3],
        ['Paris', 0.1],
        ['paris', 0.2],
      ],
      2,
    ],
    [
      'then the highest single weight',
      [
        ['x', 2],
        ['x', 2],
        ['y', 1],
        ['y', 3],
      ],
      3,
    ],
    ['then the lowest index', [['London'], ['Paris']], 0],
    ['the last line that begins with Answer:', [['no idea'], ['So …\nAnswer: 42'], ['Final answer： 42.0']], 1],
    ['the last \\boxed{}', [['41'], ['first \\boxed{1}, so \\boxed{42}'], ['42']], 1],
    ['numbers without currency, commas and zeros', [['999'], ['$1,000.00'], ['1000']], 1],
    ['a percentage is another number', [['50'], ['50%'], ['50.0%']], 1],
    ['JSON by value, not by text', [['{"a":2}'], ['{"a":1,"b":[2]}'], ['{ "b": [2], "a": 1 }']], 1],
    ['JSON inside a fence', [['x'], ['```json\n{"a": 1}\n```'], ['{"a":1}']], 1],
    ['what a model thinks is no part of its answer', [['7'], ['<think>7? no, 8</think>8'], ['8']], 1],
    ['articles and punctuation', [['a dog'], ['The cat!'], ['cat']], 1],
    ['smart quotes and dashes, full-width forms', [['x'], ['it’s well–known'], ["It's well-known"]], 1],
    ['C is not C++', [['C'], ['C++', 1.5], ['c']], 0],
    ['nothing fuzzy: a near miss is another answer', [['colour'], ['color', 1.5], ['colors']], 1],
  ]
  test.each(rows.map((row) => [...row] as const))('%s', async (_what, said, winner) => {
    for (const [at, [text]] of said.entries()) says(names[at] ?? 'a', text)
    const experts = said.map(([, weight], at) => expert(names[at] ?? 'a', weight))
    const { choices, svc } = await pool.answered(vote(...experts))
    expect(choices[0]?.message.content).toBe(said[winner]?.[0] ?? '')
    expect(svc.mixture.degraded).toBe(false)
  })

  test('the vote is among those that answered', async () => {
    says('b', 'London')
    says('c', 'Paris')
    fails('a', 'd')
    const { choices, svc } = await pool.answered(vote(expert('a', 9), b, expert('c', 2), d))
    expect([choices[0]?.message.content, svc.mixture.degraded]).toEqual(['Paris', true])
  })

  test('calls of tools match by name and parsed arguments', async () => {
    const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
    pool.nodes.a.setAnswer({ toolCalls: 'never' })
    const { choices } = await pool.answered(vote(expert('a', 1.5), b, c), { body: { tools } })
    expect(choices[0]?.message).toMatchObject({
      content: null,
      tool_calls: [{ type: 'function', function: { name: 'look', arguments: '{"fake": true}' } }],
    })
    expect(choices[0]?.finish_reason).toBe('tool_calls')
  })
})
