import { describe, expect, test } from 'bun:test'
import { dottedPath } from '../../../src/protocol/validation/sentences.ts'
import type { RerankResponse } from '../../../src/protocol/wire/inference/rerank.ts'
import { fixture } from '../../support/run/fixture.ts'
import { postRerank, refusalOf, startRerankAgent } from './rerank-agent.ts'

const model = 'lexical/bm25'
const query = 'What is the capital of the United States?'
const documents = [
  'Carson City is the capital city of the American state of Nevada.',
  'The Commonwealth of the Northern Mariana Islands is a group of islands in the Pacific Ocean.',
  'Washington, D.C. is the capital of the United States.',
  'Bananas are yellow.',
]

const agent = await fixture(startRerankAgent())

const ranked = async (body: unknown) => {
  const response = await agent.post(body)
  expect(response.status).toBe(200)
  return ((await response.json()) as RerankResponse).results
}

describe('§12: the request', () => {
  const valid = { model, query, documents }
  const refused: readonly (readonly [string, unknown, string])[] = [
    ['no model', { query, documents }, '/model'],
    ['an empty model', { ...valid, model: '' }, '/model'],
    ['a model that is no text', { ...valid, model: 1 }, '/model'],
    ['no query', { model, documents }, '/query'],
    ['an empty query', { ...valid, query: '' }, '/query'],
    ['a query of 32 KiB and one byte', { ...valid, query: `${'é'.repeat(16 * 1024)}x` }, '/query'],
    ['no documents', { model, query }, '/documents'],
    ['an empty list', { ...valid, documents: [] }, '/documents'],
    ['1 001 documents', { ...valid, documents: new Array(1_001).fill('a') }, '/documents'],
    ['documents as objects', { ...valid, documents: [{ text: 'a' }] }, '/documents/0'],
    ['a document that is null', { ...valid, documents: ['a', null] }, '/documents/1'],
    ['a document of 64 KiB and one byte', { ...valid, documents: ['a', `${'é'.repeat(32 * 1024)}x`] }, '/documents/1'],
    ['top_n 0', { ...valid, top_n: 0 }, '/top_n'],
    ['top_n of half', { ...valid, top_n: 1.5 }, '/top_n'],
    ['top_n as text', { ...valid, top_n: '2' }, '/top_n'],
    ['an empty runtime_id', { ...valid, runtime_id: '' }, '/runtime_id'],
    ['a list', [], ''],
  ]
  for (const [name, body, pointer] of refused) {
    test(`${name} is refused`, async () => {
      const problem = await refusalOf(await agent.post(body))
      expect([problem.status, problem.code]).toEqual([400, 'invalid_request'])
      expect(problem.errors?.[0]?.pointer).toBe(pointer)
      const field = pointer === '' ? 'The body' : dottedPath(pointer)
      expect(problem.detail).toMatch(/ (?:must be .+; you sent .+|is missing. Send .+|may have at most .+)\.$/)
      expect(problem.detail).toStartWith(`${field} `)
    })
  }

  test('the largest of everything is taken', async () => {
    expect(await ranked({ ...valid, query: 'é'.repeat(16 * 1024) })).toHaveLength(4)
    expect(await ranked({ ...valid, documents: ['é'.repeat(32 * 1024)] })).toHaveLength(1)
    expect(await ranked({ ...valid, documents: new Array(1_000).fill('capital') })).toHaveLength(1_000)
  })

  test('top_n: default all, larger is clamped', async () => {
    expect(await ranked(valid)).toHaveLength(4)
    expect(await ranked({ ...valid, top_n: 2 })).toHaveLength(2)
    expect(await ranked({ ...valid, top_n: 1_000_000_000 })).toHaveLength(4)
  })

  test('what Cohere and Jina clients send beyond it is ignored, and so is anything else', async () => {
    const more = { return_documents: true, max_tokens_per_doc: 4_096, rank_fields: ['text'], user: 'x', nonsense: {} }
    expect(await ranked({ ...valid, ...more })).toEqual(await ranked(valid))
  })

  test('no JSON, deep JSON, another type, and more than 8 MiB', async () => {
    const codeOf = async (body: string, type = 'application/json') => {
      const { status, code } = await refusalOf(await agent.post(body, { 'content-type': type }))
      return [status, code]
    }
    expect(await codeOf('{')).toEqual([400, 'invalid_json'])
    expect(await codeOf('')).toEqual([400, 'invalid_json'])
    expect(await codeOf(`{"a":${'['.repeat(128)}${']'.repeat(128)}}`)).toEqual([400, 'invalid_json'])
    expect(await codeOf('{}', 'text/plain')).toEqual([415, 'unsupported_media_type'])
    expect(await codeOf(' '.repeat(8 * 1024 * 1024 + 1))).toEqual([413, 'payload_too_large'])
  })

  test('no refusal repeats what was sent', async () => {
    const secret = 'zaubererbruder'
    const bodies = [
      { ...valid, query: `${secret}${'x'.repeat(40_000)}` },
      { ...valid, documents: [{ text: secret }] },
      { ...valid, documents: [secret], model: 'none' },
      { ...valid, documents: [secret], top_n: -1 },
    ]
    for (const body of bodies) expect(await (await agent.post(body)).text()).not.toContain(secret)
  })
})

describe('§12: the response', () => {
  test('best first, index and score alone, no text', async () => {
    const response = await agent.post({ model, query, documents, return_documents: true })
    const body = (await response.json()) as RerankResponse
    expect(Object.keys(body)).toEqual(['results'])
    for (const result of body.results) expect(Object.keys(result)).toEqual(['index', 'relevance_score'])
    expect(body.results[0]?.index).toBe(2)
    expect(body.results.at(-1)).toEqual({ index: 3, relevance_score: 0 })
    const scores = body.results.map((result) => result.relevance_score)
    expect(scores).toEqual(scores.toSorted((a, b) => b - a))
    expect(response.headers.get('content-type')).toStartWith('application/json')
    expect(response.headers.get('cache-control')).toBe('no-store')
  })

  test('equal scores: the lower index first, also where top_n cuts between them', async () => {
    const same = { model, query: 'capital', documents: ['a capital', 'nothing', 'a capital', 'a capital'] }
    expect((await ranked(same)).map(({ index }) => index)).toEqual([0, 2, 3, 1])
    expect((await ranked({ ...same, top_n: 2 })).map(({ index }) => index)).toEqual([0, 2])
  })

  test('§1: every response has its own request id, which the log is told', async () => {
    const ids = new Set<string>()
    for (const body of [{ model, query, documents }, {}, '{']) {
      const id = (await agent.post(body)).headers.get('x-request-id') ?? ''
      expect(id).toMatch(/^req_[0-9A-Z]{26}$/)
      ids.add(id)
    }
    const stranger = await postRerank(agent.url, {}, { 'x-request-id': 'mine' })
    expect((await refusalOf(stranger)).request_id).toMatch(/^req_/)
    expect(ids.size).toBe(3)
    expect(agent.ends.slice(-4).map(({ status, code }) => [status, code])).toEqual([
      [200, null],
      [400, 'invalid_request'],
      [400, 'invalid_json'],
      [401, 'missing_credentials'],
    ])
    for (const id of ids) expect(agent.ends.some(({ requestId }) => requestId === id)).toBe(true)
  })
})

describe('§12: the choice of a runtime', () => {
  test('a model that nobody has, a runtime that nobody has', async () => {
    const codeOf = async (more: object) => {
      const { status, code } = await refusalOf(await agent.post({ model, query, documents, ...more }))
      return [status, code]
    }
    expect(await codeOf({ model: 'none' })).toEqual([404, 'model_not_found'])
    expect(await codeOf({ runtime_id: 'rt_none' })).toEqual([404, 'runtime_not_found'])
  })

  test('a runtime that is named exactly', async () => {
    const runtimeId = agent.runtimes.list()[0]?.runtimeId
    expect(await ranked({ model, query, documents, runtime_id: runtimeId })).toHaveLength(4)
    const problem = await refusalOf(
      await agent.post({ model, query, documents, runtime_id: runtimeId?.toLowerCase() ?? '' }),
    )
    expect(problem.code).toBe('runtime_not_found')
  })
})
