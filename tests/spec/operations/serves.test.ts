import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import type { AdminModelList } from '../../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'

/** Nothing in its name says that it ranks. */
const ranking = 'quiet-judge'
/** Its name says so, and it chats. */
const chatting = 'reranker-talk'

let gateway: TestGateway
let customer: TestCustomer
let nodes: readonly ScriptedNode[]
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  nodes = [startScriptedNode(ranking, 'llama.cpp'), startScriptedNode(chatting)]
  for (const node of nodes) {
    node.answer(answer)
    await gateway.node(node.url, { customerId: customer.customerId })
  }
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  await gateway.stop()
})
afterEach(async () => {
  for (const id of [ranking, chatting]) await declare(id, null)
})

const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
function answer({ path, respond }: ScriptedCall): void {
  if (path.endsWith('/rerank')) {
    respond(200, {
      results: [
        { index: 0, relevance_score: -2 },
        { index: 1, relevance_score: 2 },
      ],
    })
  } else if (path.endsWith('/embeddings')) {
    respond(200, { data: [{ index: 0, embedding: [1, 2] }], usage })
  } else {
    respond(200, {
      choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
      usage,
    })
  }
}

const declare = (id: string, serves: readonly string[] | null) =>
  gateway.admin('PATCH', '/v1/admin/models', { id, serves })
const post = async (path: string, body: object) => {
  const response = await fetch(`${gateway.url}/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Record<string, never> }
}
const rank = (model: string) => post('/rerank', { model, query: 'which', documents: ['first', 'second'] })
const chat = (model: string) => post('/chat/completions', { model, messages: [{ role: 'user', content: 'hi' }] })
const embed = (model: string) => post('/embeddings', { model, input: 'hi' })
const modalityOf = async (id: string) => {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
  const { data } = (await response.json()) as { data: { id: string; svc: { modality: string } }[] }
  return data.find((model) => model.id === id)?.svc.modality
}

test('§35: a model of any name ranks once the catalogue says so, with the scores of its kind of server', async () => {
  expect((await rank(ranking)).body).toMatchObject({ error: { code: 'modality_not_supported' } })
  await declare(ranking, ['rerank'])
  const { status, body } = await rank(ranking)
  expect(status).toBe(200)
  // Logits of llama.cpp, as shares.
  expect(body.results as unknown).toEqual([
    { index: 1, relevance_score: 1 / (1 + Math.exp(-2)) },
    { index: 0, relevance_score: 1 / (1 + Math.exp(2)) },
  ])
  expect((await chat(ranking)).body).toMatchObject({ error: { code: 'modality_not_supported' } })
  expect(await modalityOf(ranking)).toBe('rerank')
})

test('§35: a name that misleads counts no more; a model may be for several kinds of work, the first is the usual one', async () => {
  expect((await chat(chatting)).status).toBe(400)
  await declare(chatting, ['chat', 'embedding'])
  expect((await chat(chatting)).status).toBe(200)
  expect((await embed(chatting)).status).toBe(200)
  expect((await rank(chatting)).status).toBe(400)
  expect(await modalityOf(chatting)).toBe('chat')
  await declare(chatting, ['embedding', 'chat'])
  expect(await modalityOf(chatting)).toBe('embedding')
  // Taken back: what the node says, and its name.
  await declare(chatting, null)
  await waitFor('the name to count again', async () => (await chat(chatting)).status === 400)
})

test('§23: an edit of what was read before another changed what the model is for is refused', async () => {
  await declare(ranking, ['chat'])
  const { models } = await gateway.admin<AdminModelList>('GET', '/v1/admin/models')
  const etag = models.find(({ id }) => id === ranking)?.etag ?? ''
  const edit = () =>
    fetch(`${gateway.url}/v1/admin/models`, {
      method: 'PATCH',
      headers: {
        'x-svc-admin-token': gateway.tokens.operator,
        'content-type': 'application/json',
        'if-match': etag,
      },
      body: JSON.stringify({ id: ranking, serves: ['embedding'] }),
    })
  await declare(ranking, ['rerank'])
  expect((await edit()).status).toBe(412)
  expect((await rank(ranking)).status).toBe(200)
})

test('§35: what a model is for stands in its entry; a word that is none is refused, and nothing changes', async () => {
  await declare(ranking, ['rerank'])
  const entry = async () => {
    const { models } = await gateway.admin<AdminModelList>('GET', '/v1/admin/models')
    return models.find(({ id }) => id === ranking)?.serves
  }
  expect(await entry()).toEqual(['rerank'])
  for (const serves of [['ranking'], [], ['chat', 'chat']]) {
    const response = await fetch(`${gateway.url}/v1/admin/models`, {
      method: 'PATCH',
      headers: { 'x-svc-admin-token': gateway.tokens.operator, 'content-type': 'application/json' },
      body: JSON.stringify({ id: ranking, serves }),
    })
    expect([serves, response.status]).toEqual([serves, 400])
  }
  expect(await entry()).toEqual(['rerank'])
})
