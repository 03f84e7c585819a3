import { describe, expect, test } from 'bun:test'
import { CohereClient, CohereError } from 'cohere-ai'
import { postJson } from '../../support/clients/post-json.ts'
import { fixture } from '../../support/run/fixture.ts'
import { startRerankAgent } from './rerank-agent.ts'

const model = 'lexical/bm25'
const query = 'What is the capital of the United States?'
const documents = [
  'Carson City is the capital city of the American state of Nevada.',
  'The Commonwealth of the Northern Mariana Islands is a group of islands in the Pacific Ocean.',
  'Washington, D.C. is the capital of the United States.',
  'Capital punishment has existed in the United States since before the United States was a country.',
]

const agent = await fixture(startRerankAgent())

describe("§12: Cohere's own client", () => {
  const client = (token: string, headers: Record<string, string> = {}) =>
    new CohereClient({ baseUrl: agent.url, token, headers, maxRetries: 0 })

  test('ranks with the local token', async () => {
    const { results } = await client(agent.localToken).rerank({ model, query, documents, topN: 3 })
    expect(results).toHaveLength(3)
    expect(results[0]?.index).toBe(2)
    for (const { relevanceScore } of results) {
      expect(relevanceScore).toBeGreaterThanOrEqual(0)
      expect(relevanceScore).toBeLessThanOrEqual(1)
    }
  })

  test('ranks with a local key in its header beside the token', async () => {
    const key = agent.keys.create('cohere')?.api_key ?? ''
    const ranked = await client(agent.localToken, { 'X-SVC-API-Key': key }).rerank({ model, query, documents })
    expect(ranked.results).toHaveLength(4)
  })

  test('what only Cohere knows does no harm, and documents do not come back', async () => {
    const options = { model, query, documents, returnDocuments: true, maxChunksPerDoc: 10, rankFields: ['text'] }
    const { results } = await client(agent.localToken).rerank(options)
    expect(results.map(({ index }) => index)[0]).toBe(2)
    for (const result of results) expect(result.document).toBeUndefined()
  })

  test('documents as objects are refused in a way that it understands', async () => {
    const asked = client(agent.localToken).rerank({ model, query, documents: [{ text: 'a' }] })
    const error = await asked.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(CohereError)
    expect((error as CohereError).statusCode).toBe(400)
  })

  test('a wrong token is 401', async () => {
    const error = await client('wrong')
      .rerank({ model, query, documents })
      .catch((reason: unknown) => reason)
    expect((error as CohereError).statusCode).toBe(401)
  })
})

describe("§12: Jina's HTTP interface, as https://jina.ai/reranker documents it", () => {
  const jina = (body: object) =>
    postJson(`${agent.url}/v1/rerank`, agent.localToken, body, { headers: { Accept: 'application/json' } })

  test('the request of its documentation', async () => {
    const response = await jina({ model, query, top_n: 3, documents, return_documents: false })
    expect(response.status).toBe(200)
    const { results } = (await response.json()) as { results: { index: number; relevance_score: number }[] }
    expect(results).toHaveLength(3)
    expect(results[0]?.index).toBe(2)
    expect(results[0]?.relevance_score).toBeGreaterThan(0)
  })

  test('its many languages: words are found in Chinese, Japanese and Thai, accents and widths aside', async () => {
    const best = async (asked: string, texts: readonly string[]) => {
      const { results } = (await (await jina({ model, query: asked, documents: texts })).json()) as {
        results: { index: number; relevance_score: number }[]
      }
      return results.filter((result) => result.relevance_score > 0).map(({ index }) => index)
    }
    expect(await best('敏感肌肤', ['新的化妆趋势注重鲜艳的颜色', '针对敏感肌肤专门设计的天然有机护肤产品'])).toEqual([
      1,
    ])
    expect(await best('敏感肌', ['新しいメイクのトレンドは鮮やかな色', '敏感肌のために特別に設計された製品'])).toEqual([
      1,
    ])
    expect(await best('ภาษาไทย', ['อาหารอร่อยมาก', 'ภาษาไทยง่ายมาก'])).toEqual([1])
    expect(
      await best('Hautpflege für empfindliche Haut', ['MAKE-UP', 'Bio-Hautpflege: FÜR EMPFINDLICHE HAUT']),
    ).toEqual([1])
    expect(await best('ＡＢＣ１２３', ['xyz', 'abc123'])).toEqual([1])
  })
})
