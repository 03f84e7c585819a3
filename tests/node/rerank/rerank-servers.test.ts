import { afterEach, describe, expect, test } from 'bun:test'
import { rerankInFlightMax } from '../../../src/node/rerank/rerank.ts'
import type { RerankResponse } from '../../../src/protocol/wire/inference/rerank.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { type RankingScript, type RankingServer, startRankingServer } from '../ranking-server.ts'
import { type RerankAgent, type RerankAgentOptions, refusalOf, startRerankAgent } from './rerank-agent.ts'

const query = 'What is the capital of France?'
const documents = ['Paris is the capital of France.', 'Berlin is the capital of Germany.', 'Madrid is in Spain.']

/** What the servers answered to such a request, as their projects document it. */
const recorded = {
  // https://lemonade-server.ai/docs/api/llamacpp/: logits, in the order of the documents.
  llamaCpp: {
    model: 'bge-reranker-v2-m3-GGUF',
    object: 'list',
    results: [
      { index: 0, relevance_score: 8.60673713684082 },
      { index: 1, relevance_score: -5.3886260986328125 },
      { index: 2, relevance_score: -3.555561065673828 },
    ],
    usage: { prompt_tokens: 51, total_tokens: 51 },
  },
  // https://docs.vllm.ai, "Re-rank API": with every document.
  vllm: {
    id: 'rerank-fae51b2b664d4ed38f5969b612edff77',
    model: 'BAAI/bge-reranker-base',
    usage: { total_tokens: 56 },
    results: [
      { index: 1, document: { text: 'Berlin is the capital of Germany.' }, relevance_score: 0.99853515625 },
      { index: 0, document: { text: 'Paris is the capital of France.' }, relevance_score: 0.0005860328674316406 },
    ],
  },
  // sglang/srt/entrypoints/openai/protocol.py of SGLang 0.5.23, RerankResponse.
  sglang: [
    { score: 0.9986, index: 1, meta_info: { prompt_tokens: 17 } },
    { score: 0.0271, index: 0, meta_info: { prompt_tokens: 16 } },
    { score: 0.0003, index: 2, meta_info: { prompt_tokens: 14 } },
  ],
  // https://huggingface.github.io/text-embeddings-inference, POST /rerank.
  tei: [
    { index: 1, score: 0.9986 },
    { index: 0, score: 0.0271 },
    { index: 2, score: 0.0003 },
  ],
}

const running: { stop(): unknown }[] = []
afterEach(async () => {
  for (const part of running.splice(0).toReversed()) await part.stop()
})

async function serve(fixture: string, script: RankingScript): Promise<RankingServer> {
  const server = await startRankingServer(fixture, script)
  running.push(server)
  return server
}

async function agentOver(servers: readonly RankingServer[], more: RerankAgentOptions = {}): Promise<RerankAgent> {
  const agent = await startRerankAgent({ urls: servers.map(({ url }) => url), ...more })
  running.push(agent)
  return agent
}

const answering =
  (body: unknown, status = 200): RankingScript =>
  (request) =>
    request.respond(status, body)

async function resultsOf(response: Response) {
  expect(response.status).toBe(200)
  const { results } = (await response.json()) as RerankResponse
  return results
}

/** Nothing of the request counts any more. */
function idle(agent: RerankAgent): boolean {
  return agent.reranker.inFlight === 0 && agent.runtimes.list().every((runtime) => runtime.inFlight === 0)
}

describe('§12: each kind of server in its own dialect', () => {
  test('llama.cpp: logits through a sigmoid, sorted by us', async () => {
    const server = await serve('llama-cpp-reranker', answering(recorded.llamaCpp))
    const agent = await agentOver([server])
    const model = 'bge-reranker-v2-m3-Q8_0'
    const results = await resultsOf(await agent.post({ model, query, documents, top_n: 2 }))
    expect(results.map(({ index }) => index)).toEqual([0, 2])
    expect(results[0]?.relevance_score).toBeCloseTo(1 / (1 + Math.exp(-8.60673713684082)), 12)
    expect(results[1]?.relevance_score).toBeCloseTo(1 / (1 + Math.exp(3.555561065673828)), 12)
    expect(server.requests.map(({ path, body }) => [path, body])).toEqual([
      ['/v1/rerank', { model, query, documents, top_n: 3 }],
    ])
  })

  test('vLLM: probabilities as they are, its documents dropped', async () => {
    const server = await serve('vllm-reranker', answering(recorded.vllm))
    const agent = await agentOver([server])
    const model = 'BAAI/bge-reranker-base'
    const response = await agent.post({ model, query, documents: documents.slice(0, 2) })
    const results = await resultsOf(response)
    expect(results).toEqual([
      { index: 1, relevance_score: 0.99853515625 },
      { index: 0, relevance_score: 0.0005860328674316406 },
    ])
    expect(server.requests[0]?.body).toEqual({ model, query, documents: documents.slice(0, 2), top_n: 2 })
  })

  test('SGLang: a bare list, best first, without the documents', async () => {
    const server = await serve('sglang-reranker', answering(recorded.sglang))
    const agent = await agentOver([server])
    const model = 'BAAI/bge-reranker-v2-m3'
    const results = await resultsOf(await agent.post({ model, query, documents }))
    expect(results).toEqual(recorded.sglang.map(({ index, score }) => ({ index, relevance_score: score })))
    expect(server.requests.map(({ path, body }) => [path, body])).toEqual([
      ['/v1/rerank', { model, query, documents, return_documents: false }],
    ])
  })

  test('TEI: its own path and names, long documents cut and not refused', async () => {
    const server = await serve('tei-ready', answering(recorded.tei))
    const agent = await agentOver([server])
    const results = await resultsOf(await agent.post({ model: 'BAAI/bge-reranker-v2-m3', query, documents }))
    expect(results).toEqual(recorded.tei.map(({ index, score }) => ({ index, relevance_score: score })))
    expect(server.requests.map(({ path, body }) => [path, body])).toEqual([
      ['/rerank', { query, texts: documents, truncate: true }],
    ])
  })

  test('TEI takes no more documents at once than it says: the batches are ranked together', async () => {
    const server = await serve('tei-path-id', (request) => {
      const texts = request.body.texts as readonly string[]
      request.respond(200, texts.map((text, index) => ({ index, score: Number(text) / 100 })).toReversed())
    })
    const agent = await agentOver([server])
    const numbers = Array.from({ length: 21 }, (_, at) => String((at * 8) % 21))
    const results = await resultsOf(await agent.post({ model: 'bge-reranker-base', query, documents: numbers }))
    expect(server.requests.map(({ body }) => (body.texts as readonly string[]).length)).toEqual([8, 8, 5])
    expect(results.map(({ index }) => Number(numbers[index]))).toEqual(Array.from({ length: 21 }, (_, at) => 20 - at))
  })
})

describe('§12: a server that ranks and does not say so', () => {
  const flat = { results: documents.map((_, index) => ({ index, relevance_score: 0.25 * index })) }

  test('by the word of the operator; the kind of server says how its scores are meant', async () => {
    const server = await serve('llama-cpp-path-id', answering(flat))
    const agent = await agentOver([], { rankers: [{ url: server.url, scoreKind: null }] })
    const model = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M'
    const results = await resultsOf(await agent.post({ model, query, documents }))
    expect(results.at(-1)).toEqual({ index: 0, relevance_score: 0.5 })
  })

  test('or the operator does', async () => {
    const server = await serve('llama-cpp-path-id', answering(flat))
    const agent = await agentOver([server], { rankers: [{ url: server.url, scoreKind: 'probability' }] })
    const model = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M'
    const results = await resultsOf(await agent.post({ model, query, documents }))
    expect(results.map((result) => result.relevance_score)).toEqual([0.5, 0.25, 0])
  })

  test('a generic server with the usual path', async () => {
    const server = await serve('openai-ready', answering(flat))
    const agent = await agentOver([], { rankers: [{ url: server.url, scoreKind: null }] })
    const results = await resultsOf(await agent.post({ model: 'sabia-4', query, documents }))
    expect(results[0]).toEqual({ index: 2, relevance_score: 0.5 })
    expect(server.requests[0]?.path).toBe('/v1/rerank')
  })
})

test('§1: a stop takes nothing new, lets a ranking end, and waits no longer than it may', async () => {
  const held: (() => void)[] = []
  const server = await serve('tei-ready', (request) => void held.push(() => request.respond(200, recorded.tei)))
  const agent = await agentOver([server])
  const body = { model: 'BAAI/bge-reranker-v2-m3', query, documents }
  const first = agent.post(body)
  await waitUntil('it is under way', () => held.length === 1)
  await agent.reranker.stop(20)
  const stopped = agent.reranker.stop(60_000)
  expect((await refusalOf(await agent.post(body))).code).toBe('service_unavailable')
  held[0]?.()
  await stopped
  expect((await first).status).toBe(200)
})

describe('§12: which runtime', () => {
  const model = 'BAAI/bge-reranker-v2-m3'

  test('the one that is named, though another is as good', async () => {
    const servers = [
      await serve('tei-ready', answering(recorded.tei)),
      await serve('tei-ready', answering(recorded.tei)),
    ]
    const agent = await agentOver(servers)
    const ids = agent.runtimes.list().map(({ runtimeId }) => runtimeId)
    await resultsOf(await agent.post({ model, query, documents, runtime_id: ids[2] }))
    expect(servers.map(({ requests }) => requests.length)).toEqual([0, 1])
  })

  test('the one with more free slots', async () => {
    const held: (() => void)[] = []
    const script: RankingScript = (request) => void held.push(() => request.respond(200, recorded.tei))
    const servers = [await serve('tei-ready', script), await serve('tei-ready', script)]
    const agent = await agentOver(servers)
    for (const runtime of agent.runtimes.list()) expect(runtime.inFlight).toBe(0)
    const first = agent.post({ model, query, documents })
    await waitUntil('the first is under way', () => held.length === 1)
    const second = agent.post({ model, query, documents })
    await waitUntil('the second is under way', () => held.length === 2)
    expect(servers.map(({ requests }) => requests.length)).toEqual([1, 1])
    for (const release of held) release()
    await Promise.all([first, second].map(async (response) => resultsOf(await response)))
    expect(idle(agent)).toBe(true)
  })

  test('a model that chats, or one of a server that embeds', async () => {
    const servers = [
      await serve('llama-cpp-path-id', answering({})),
      await serve('tei-embedding', answering({})),
      await serve('tei-ready', answering(recorded.tei)),
    ]
    const agent = await agentOver(servers)
    const [, llama, , tei] = agent.runtimes.list().map(({ runtimeId }) => runtimeId)
    const codeOf = async (body: object) => {
      const { status, code } = await refusalOf(await agent.post({ query, documents, ...body }))
      return [status, code]
    }
    const chat = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M'
    expect(await codeOf({ model: chat })).toEqual([400, 'modality_not_supported'])
    expect(await codeOf({ model: chat, runtime_id: llama })).toEqual([400, 'modality_not_supported'])
    expect(await codeOf({ model: chat, runtime_id: tei })).toEqual([404, 'model_not_found'])
    expect(await codeOf({ model: 'Alibaba-NLP/gte-large-en-v1.5' })).toEqual([400, 'modality_not_supported'])
    for (const { requests } of servers) expect(requests).toEqual([])
  })

  test('one that is not well is not asked', async () => {
    const server = await serve('tei-ready', answering(recorded.tei))
    const agent = await agentOver([server])
    await resultsOf(await agent.post({ model, query, documents }))
    server.down = true
    await waitUntil('the agent knows', () => agent.runtimes.list()[1]?.state !== 'ready')
    const response = await agent.post({ model, query, documents, runtime_id: agent.runtimes.list()[1]?.runtimeId })
    const { status, code, retryable } = await refusalOf(response)
    expect([status, code, retryable]).toEqual([503, 'runtime_unavailable', true])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(server.requests).toHaveLength(1)
  })
})

describe('§12: what a server may do wrong', () => {
  const model = 'BAAI/bge-reranker-base'
  const result = (index: unknown, score: unknown) => ({ index, relevance_score: score })
  const of = (...results: unknown[]) => ({ results })
  const faults: readonly (readonly [string, unknown, string])[] = [
    ['no JSON', '<html>secret</html>', 'not_json'],
    ['nothing', '', 'not_json'],
    ['a list', [], 'shape'],
    ['no results', {}, 'shape'],
    ['an index beyond', of(result(0, 0.1), result(1, 0.1), result(3, 0.1)), 'index'],
    ['an index below', of(result(0, 0.1), result(1, 0.1), result(-1, 0.1)), 'index'],
    ['an index twice', of(result(0, 0.1), result(1, 0.1), result(1, 0.2)), 'index'],
    ['half an index', of(result(0, 0.1), result(1, 0.1), result(1.5, 0.2)), 'index'],
    ['an index as text', of(result('0', 0.1), result(1, 0.1), result(2, 0.2)), 'index'],
    ['no score', of(result(0, 0.1), result(1, 0.1), { index: 2 }), 'score'],
    ['a score that is null', of(result(0, 0.1), result(1, 0.1), result(2, null)), 'score'],
    ['a score as text', of(result(0, 0.1), result(1, 0.1), result(2, '0.5')), 'score'],
    ['an infinite score', '{"results":[{"index":0,"relevance_score":1e999}]}', 'score'],
    ['NaN', '{"results":[{"index":0,"relevance_score":NaN}]}', 'not_json'],
    ['a probability above 1', of(result(0, 0.1), result(1, 0.1), result(2, 7.5)), 'score_range'],
    ['too few', of(result(0, 0.1), result(1, 0.1)), 'too_few'],
    ['an entry that is null', of(null), 'index'],
  ]
  for (const [name, answer, failure] of faults) {
    test(name, async () => {
      const agent = await agentOver([await serve('vllm-reranker', answering(answer))])
      const response = await agent.post({ model, query, documents })
      const problem = await refusalOf(response)
      expect([problem.status, problem.code]).toEqual([502, 'upstream_error'])
      expect(JSON.stringify(problem)).not.toContain('secret')
      expect(agent.ends.at(-1)?.failure).toMatchObject({ name: 'RankingError', code: failure })
      expect(idle(agent)).toBe(true)
    })
  }

  test('fewer results than documents are enough for a top_n that asks for no more', async () => {
    const agent = await agentOver([await serve('vllm-reranker', answering(of(result(2, 0.5), result(0, 0.9))))])
    const results = await resultsOf(await agent.post({ model, query, documents, top_n: 2 }))
    expect(results.map(({ index }) => index)).toEqual([0, 2])
  })

  test('single precision beyond its edge is at the edge', async () => {
    const edges = of(result(0, 1.0000001192092896), result(1, -1e-8), result(2, 0.5))
    const agent = await agentOver([await serve('vllm-reranker', answering(edges))])
    const results = await resultsOf(await agent.post({ model, query, documents }))
    expect(results.map((entry) => entry.relevance_score)).toEqual([1, 0.5, 0])
  })

  test('an error of its own, a redirect, and a lost connection', async () => {
    const answers: readonly (readonly [RankingScript, number, string])[] = [
      [answering({ error: { message: 'secret' } }, 500), 502, 'upstream_error'],
      [answering({ error: { message: 'secret' } }, 400), 502, 'upstream_error'],
      [(request) => request.respond(307, '', { location: 'http://127.0.0.1:1/' }), 502, 'upstream_error'],
      [(request) => request.cut(), 502, 'upstream_error'],
      [answering({ error: 'Model is overloaded', error_type: 'overloaded' }, 429), 503, 'runtime_unavailable'],
      [answering({}, 503), 503, 'runtime_unavailable'],
    ]
    const server = await serve('vllm-reranker', answering({}))
    const agent = await agentOver([server])
    for (const [script, status, code] of answers) {
      server.script = script
      const problem = await refusalOf(await agent.post({ model, query, documents }))
      expect([problem.status, problem.code]).toEqual([status, code])
      expect(JSON.stringify(problem)).not.toContain('secret')
    }
    expect(idle(agent)).toBe(true)
  })

  test('an answer that has no end is cut off', async () => {
    const agent = await agentOver([await serve('vllm-reranker', answering(`"${'x'.repeat(33 * 1024 * 1024)}"`))])
    const problem = await refusalOf(await agent.post({ model, query, documents }))
    expect(problem.code).toBe('upstream_error')
    expect(agent.ends.at(-1)?.failure).toMatchObject({ code: 'too_large' })
  })
})

describe('§12: time and leaving', () => {
  const model = 'BAAI/bge-reranker-base'
  const silent: readonly (readonly [string, RankingScript])[] = [
    ['before the head', () => {}],
    ['in the middle of the body', (request) => request.stall('{"results":[')],
  ]
  for (const [where, script] of silent) {
    test(`a server that is silent ${where} has its time, and its connection is closed`, async () => {
      const server = await serve('vllm-reranker', script)
      const agent = await agentOver([server], { timeoutMs: 100 })
      const problem = await refusalOf(await agent.post({ model, query, documents }))
      expect([problem.status, problem.code, problem.retryable]).toEqual([504, 'upstream_timeout', true])
      await server.requests[0]?.gone
      expect(idle(agent)).toBe(true)
    })

    test(`a client that leaves ends the work of a server that is silent ${where}`, async () => {
      const server = await serve('vllm-reranker', script)
      const agent = await agentOver([server])
      const gone = new AbortController()
      const response = postJson(
        `${agent.url}/v1/rerank`,
        agent.localToken,
        { model, query, documents },
        { signal: gone.signal },
      )
      await waitUntil('the server has the request', () => server.requests.length === 1)
      gone.abort()
      await expect(response).rejects.toThrow()
      await server.requests[0]?.gone
      await waitUntil('nothing is left', () => idle(agent) && agent.ends.length === 1)
      expect(agent.ends[0]).toMatchObject({ status: 499, code: null })
    })
  }

  test('a client that leaves ends the built-in ranking too', async () => {
    const agent = await agentOver([])
    const gone = new AbortController()
    const many = Array.from({ length: 128 }, (_, at) => `word${at} `.repeat(6_000))
    const response = postJson(
      `${agent.url}/v1/rerank`,
      agent.localToken,
      { model: 'lexical/bm25', query: 'word1', documents: many },
      { signal: gone.signal },
    )
    await waitUntil('it is under way', () => agent.reranker.inFlight === 1)
    gone.abort()
    await expect(response).rejects.toThrow()
    await waitUntil('nothing is left', () => idle(agent) && agent.ends.length === 1)
    expect(agent.ends[0]?.status).toBe(499)
  })

  test('no more at once than allowed: the next is told to come back', async () => {
    const held: (() => void)[] = []
    const server = await serve('tei-ready', (request) => void held.push(() => request.respond(200, recorded.tei)))
    const agent = await agentOver([server])
    const body = { model: 'BAAI/bge-reranker-v2-m3', query, documents }
    const all = Array.from({ length: rerankInFlightMax }, () => agent.post(body))
    await waitUntil('all are under way', () => held.length === rerankInFlightMax)
    const response = await agent.post(body)
    expect((await refusalOf(response)).code).toBe('runtime_unavailable')
    expect(response.headers.get('retry-after')).toBe('1')
    for (const release of held) release()
    for (const answer of await Promise.all(all)) expect(answer.status).toBe(200)
    expect(idle(agent)).toBe(true)
  })
})
