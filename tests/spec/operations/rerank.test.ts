import { afterAll, describe, expect, test } from 'bun:test'
import { Cohere, CohereClient, CohereClientV2, CohereError } from 'cohere-ai'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const model = 'text-rerank'
/** On a server that scores by logits. */
const logits = 'logit-reranker'
/** Behind an agent. */
const homely = 'homely-reranker'
const query = 'which'
const documents = ['first', 'second', 'third']

afterAll(async () => {
  for (const node of [...nodes, logitNode, homeServer]) node.stop()
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const nodes: readonly ScriptedNode[] = [startScriptedNode(model), startScriptedNode(model)]
const logitNode = startScriptedNode(logits, 'llama.cpp')
const homeServer = startScriptedNode(homely)
for (const { url } of [...nodes, logitNode]) await gateway.node(url, { customerId: customer.customerId })
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(startAgent({ gatewayUrl: gateway.url, token, runtimes: [homeServer.url] }))
await untilState(gateway, agent.nodeId, 'ready')

interface Ranking {
  readonly results: readonly { index: number; relevance_score: number; document?: object }[]
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number }
  readonly svc: { receipt_hash: string; usage_estimated?: boolean; receipt_hashes?: readonly string[] }
}
const ask = (body: object) => postJson(`${gateway.url}/v1/rerank`, customer.key, { model, query, documents, ...body })
const ranked = async (body: object = {}) => {
  const response = await ask(body)
  expect(response.status).toBe(200)
  return (await response.json()) as Ranking
}
const scoring =
  (scores: readonly number[], more: object = {}) =>
  (call: ScriptedCall) =>
    call.respond(200, { results: scores.map((score, index) => ({ index, relevance_score: score })), ...more })
const answering = (script: (call: ScriptedCall) => void) => {
  for (const node of nodes) node.answer(script)
}

describe('§28: rerank', () => {
  test('best first, of equal scores the lower index first, as many as are asked for', async () => {
    answering(scoring([0.5, 0.9, 0.5]))
    expect((await ranked()).results.map(({ index }) => index)).toEqual([1, 0, 2])
    expect((await ranked({ top_n: 1 })).results).toEqual([{ index: 1, relevance_score: 0.9 }])
    expect((await ranked({ top_n: 9 })).results).toHaveLength(3)
  })

  test('documents as objects go as texts, and come back where they are wanted', async () => {
    let sent: object = {}
    answering((call) => {
      sent = call.body
      scoring([0.1, 0.2])(call)
    })
    const asked = { documents: [{ text: 'a', title: 'T' }, 'b'], return_documents: true, top_n: 1 }
    expect((await ranked(asked)).results).toEqual([{ index: 1, relevance_score: 0.2, document: { text: 'b' } }])
    expect(sent).toEqual({ model, query, documents: ['a', 'b'], top_n: 2 })
  })

  test('logits become scores in 0–1; usage that no node tells is estimated, and says so', async () => {
    logitNode.answer(scoring([0, -40, 40]))
    const { results, usage, svc } = await ranked({ model: logits })
    expect(results.map(({ index }) => index)).toEqual([2, 0, 1])
    expect(results[1]?.relevance_score).toBe(0.5)
    for (const { relevance_score: score } of results) expect(score >= 0 && score <= 1).toBe(true)
    expect(svc.usage_estimated).toBe(true)
    expect(usage.prompt_tokens).toBeGreaterThan(documents.length)
  })

  test('an agent ranks with its own runtimes, and the receipt is the gateway’s', async () => {
    homeServer.answer(scoring([0.1, 0.2, 0.7]))
    const { results, svc } = await ranked({ model: homely })
    expect(results.map(({ index }) => index)).toEqual([2, 1, 0])
    const receipts = () => gateway.database.sql<{ kind: string; node_id: string; issuer: string }[]>`
      select kind, node_id, issuer from receipts where receipt_hash = ${svc.receipt_hash}`
    await waitFor('the receipt', async () => (await receipts()).length === 1)
    expect([...(await receipts())]).toEqual([{ kind: 'hosted_rerank', node_id: agent.nodeId, issuer: 'gateway' }])
    const metrics = await fetch(`${gateway.url}/metrics`, {
      headers: { authorization: `Bearer ${gateway.tokens.viewer}` },
    })
    expect(await metrics.text()).not.toContain('receipt_invalid')
  })

  test('§35: a server gets members that nobody here knows, directly and behind an agent', async () => {
    const more = { truncate: false, brand_new: { deep: [1, null] } }
    const sent: object[] = []
    const hear = (call: ScriptedCall) => {
      sent.push(call.body)
      scoring([0.1, 0.2, 0.7])(call)
    }
    answering(hear)
    homeServer.answer(hear)
    const asked = { ...more, nothing: null, user: 'x', use_activation: true, rank_fields: ['text'], top_n: 1 }
    for (const name of [model, homely]) expect((await ranked({ model: name, ...asked })).results).toHaveLength(1)
    expect(sent).toEqual([model, homely].map((name) => ({ ...more, model: name, query, documents, top_n: 3 })))
  })

  test('many documents are ranked side by side, and numbered as they were sent', async () => {
    const many = Array.from({ length: 64 }, (_, at) => String(at))
    const asked = new Set<ScriptedNode>()
    for (const node of nodes) {
      node.answer((call) => {
        asked.add(node)
        const given = call.body.documents as readonly string[]
        scoring(
          given.map((text) => Number(text) / 100),
          { usage: { total_tokens: given.length } },
        )(call)
      })
    }
    const { results, usage, svc } = await ranked({ documents: many })
    expect(results.map(({ index }) => index)).toEqual(many.map(Number).reverse())
    expect(usage).toEqual({ prompt_tokens: 64, total_tokens: 64 })
    expect(svc.receipt_hashes?.length).toBeGreaterThan(1)
    expect(asked.size).toBe(2)
  })

  test.each([
    ['too few', { results: [{ index: 0, relevance_score: 1 }] }],
    ['an index twice', { results: [0, 0, 1].map((index) => ({ index, relevance_score: 0.1 })) }],
    ['a score beyond 1', { results: [0, 1, 2].map((index) => ({ index, relevance_score: 2 })) }],
    ['an error', { error: { message: 'no' }, results: [] }],
  ] as const)('an answer that is no ranking is the node’s failure: %s', async (_, answer) => {
    answering((call) => call.respond(200, answer))
    const response = await ask({})
    expect([response.status, await response.json()]).toMatchObject([502, { error: { code: 'upstream_error' } }])
  })

  test.each([
    ['documents', { documents: [] }],
    ['documents.1', { documents: ['a', 'ö'.repeat(33_000)] }],
    ['query', { query: 'ö'.repeat(20_000) }],
    ['top_n', { top_n: 0 }],
    ['rank_fields', { rank_fields: ['title'] }],
    ['stream', { stream: true }],
    ['max_tokens_per_doc', { max_tokens_per_doc: 100 }],
    ['raw_scores', { raw_scores: true }],
    ['activation', { activation: false }],
    ['use_activation', { use_activation: 0 }],
    ['texts', { texts: ['a'] }],
  ] as const)('%s is refused by name', async (param, body) => {
    const response = await ask(body)
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code: 'invalid_request', param } }])
  })

  test('a model that does not rank is refused, and a ranker does not chat', async () => {
    const { url, stop, answer } = startScriptedNode('writer')
    answer((call) => call.respond(501, { error: { message: 'This server does not support reranking.' } }))
    await gateway.node(url, { customerId: customer.customerId })
    expect(await (await ask({ model: 'writer' })).json()).toMatchObject({ error: { code: 'modality_not_supported' } })
    answering((call) => call.respond(404, {}))
    const chat = await postJson(`${gateway.url}/v1/chat/completions`, customer.key, {
      model,
      messages: [{ role: 'user', content: 'hi' }],
    })
    expect(await chat.json()).toMatchObject({ error: { code: 'modality_not_supported' } })
    stop()
  })

  test('Cohere’s own clients rank, by the first and the second version of its interface', async () => {
    answering(scoring([0.5, 0.9, 0.1]))
    const at = { baseUrl: gateway.url, token: customer.key, maxRetries: 0 }
    const { results } = await new CohereClient(at).rerank({ model, query, documents, topN: 2, returnDocuments: true })
    expect(results).toEqual([
      { index: 1, relevanceScore: 0.9, document: { text: 'second' } },
      { index: 0, relevanceScore: 0.5, document: { text: 'first' } },
    ])
    const second = await new CohereClientV2(at).rerank({ model, query, documents, topN: 1 })
    expect(second.results).toMatchObject([{ index: 1, relevanceScore: 0.9 }])
    expect(second.id).toStartWith('rerank-')
  })

  test.each([
    ['a wrong key', 401, Cohere.UnauthorizedError, { token: 'wrong' }, {}],
    ['an unknown model', 404, Cohere.NotFoundError, {}, { model: 'nothing' }],
    ['nothing to rank', 400, Cohere.BadRequestError, {}, { documents: [] }],
  ] as const)('Cohere’s own clients raise their own errors: %s', async (_, status, Class, options, asked) => {
    for (const Client of [CohereClient, CohereClientV2]) {
      const client = new Client({ baseUrl: gateway.url, token: customer.key, maxRetries: 0, ...options })
      const error = await client
        .rerank({ model, query, documents: [...documents], ...asked } as never)
        .catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(Class)
      expect(error).toBeInstanceOf(CohereError)
      expect((error as CohereError).statusCode).toBe(status)
    }
  })

  test('Cohere’s own client leaves, and the node is left', async () => {
    const left = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    answering((call) => {
      asked.resolve()
      void call.gone.then(left.resolve)
    })
    const leaving = new AbortController()
    const client = new CohereClientV2({ baseUrl: gateway.url, token: customer.key, maxRetries: 0 })
    const failing = client
      .rerank({ model, query, documents }, { abortSignal: leaving.signal })
      .catch((reason: unknown) => reason)
    await asked.promise
    leaving.abort()
    expect(await failing).toBeInstanceOf(Error)
    await left.promise
  })
})
