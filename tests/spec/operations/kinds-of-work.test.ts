import { afterAll, describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { type NodeOptions, startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const started: ScriptedNode[] = []
afterAll(async () => {
  for (const node of started) node.stop()
})
/** What a server does is declared, reported, learnt from answers or, at last, guessed from its model's name (§35). */
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const stranger = await gateway.customer({
  policy: { min_privacy_class: 'public' },
  keyPolicy: { min_privacy_class: 'public' },
})

const answers = {
  '/v1/chat/completions': {
    id: 'a',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  },
  '/v1/rerank': { results: [0.1, 0.9].map((score, index) => ({ index, relevance_score: score })) },
  '/v1/embeddings': {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.5] }],
    usage: { prompt_tokens: 1, total_tokens: 1 },
  },
} as const
type Path = keyof typeof answers

/** A server that mounts these paths alone, as llama.cpp says it of others. */
const serving =
  (...paths: readonly Path[]) =>
  (call: ScriptedCall) => {
    const path = paths.find((each) => each === call.path)
    if (path !== undefined) return call.respond(200, answers[path])
    const message = `This server does not support this. It listens at ${started[0]?.url}`
    call.respond(501, { error: { code: 501, message, type: 'not_supported_error' } })
  }

async function server(model: string, paths: readonly Path[], options: NodeOptions = {}) {
  const node = startScriptedNode(model)
  node.answer(serving(...paths))
  started.push(node)
  const nodeId = await gateway.node(node.url, { customerId: customer.customerId, ...options })
  return { node, nodeId }
}

const bodies: Readonly<Record<Path, object>> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hi' }] },
  '/v1/rerank': { query: 'q', documents: ['a', 'b'] },
  '/v1/embeddings': { input: 'a' },
}
async function ask(path: Path, model: string, key = customer.key) {
  const response = await postJson(gateway.url + path, key, { model, ...bodies[path] })
  const body = (await response.json()) as { error?: { code: string; message: string; param: string | null } }
  return { status: response.status, code: body.error?.code ?? null, body }
}
const statuses = async (model: string, key?: string) => {
  const paths: readonly Path[] = ['/v1/chat/completions', '/v1/embeddings', '/v1/rerank']
  const asked = []
  for (const path of paths) asked.push((await ask(path, model, key)).status)
  return asked
}
async function worksOf(model: string) {
  const response = await fetch(`${gateway.url}/v1/models/${model}`, {
    headers: { authorization: `Bearer ${customer.key}` },
  })
  const { svc } = (await response.json()) as { svc: { modality: string; serves: readonly string[] } }
  expect(svc.serves[0]).toBe(svc.modality)
  return svc.serves
}
const patch = (nodeId: string, serves: object | null) =>
  gateway.admin<{ serves: object | null; runtimes: { models: { serves: string[] }[] }[] }>(
    'PATCH',
    `/v1/admin/nodes/${nodeId}`,
    { serves },
  )

describe('§35: declared work', () => {
  test('a ranking model of any name ranks once its node says so, and is asked for nothing else', async () => {
    const { node } = await server('foo', ['/v1/rerank'], { serves: { '*': ['rerank'] } })
    expect(await worksOf('foo')).toEqual(['rerank'])
    expect((await ask('/v1/rerank', 'foo')).body).toMatchObject({ results: [{ index: 1 }, { index: 0 }] })
    const { calls } = node
    expect(await ask('/v1/chat/completions', 'foo')).toMatchObject({ status: 400, code: 'modality_not_supported' })
    expect(node.calls).toBe(calls)
  })

  test('a line of one model stands before that of all; null takes both back', async () => {
    const { node, nodeId } = await server('foo-line', ['/v1/rerank'])
    await patch(nodeId, { '*': ['embedding'], 'foo-line': ['rerank', 'chat'] })
    expect(await worksOf('foo-line')).toEqual(['rerank', 'chat'])
    const shown = await patch(nodeId, { '*': ['embedding'] })
    expect(shown.serves).toEqual({ '*': ['embedding'] })
    expect(shown.runtimes[0]?.models[0]?.serves).toEqual(['embedding'])
    expect(await ask('/v1/rerank', 'foo-line')).toMatchObject({ code: 'modality_not_supported' })
    expect(node.calls).toBe(0)
    expect((await patch(nodeId, {})).serves).toBeNull()
    await patch(nodeId, { '*': ['rerank'] })
    expect((await patch(nodeId, null)).serves).toBeNull()
    expect(await worksOf('foo-line')).toEqual(['chat'])
  })

  test('the catalogue declares it for every node, by any of its names', async () => {
    await server('bge-reranker-that-chats', ['/v1/chat/completions'])
    await gateway.admin('PUT', '/v1/admin/models', {
      id: 'talker',
      aliases: ['bge-reranker-that-chats'],
      serves: ['chat'],
    })
    expect(await worksOf('talker')).toEqual(['chat'])
    expect(await ask('/v1/chat/completions', 'talker')).toMatchObject({ status: 200 })
    expect(await ask('/v1/rerank', 'talker')).toMatchObject({ code: 'modality_not_supported' })
  })

  test('what a node declares stands before the catalogue', async () => {
    await server('both-declare', ['/v1/embeddings'], { serves: { 'both-declare': ['embedding'] } })
    await gateway.admin('PUT', '/v1/admin/models', { id: 'both-declare', serves: ['chat'] })
    expect(await worksOf('both-declare')).toEqual(['embedding'])
    expect(await ask('/v1/embeddings', 'both-declare')).toMatchObject({ status: 200 })
  })

  test('a declared ranker of llama.cpp is read by its logits', async () => {
    const node = startScriptedNode('dreamer', 'llama.cpp')
    started.push(node)
    const results = [-40, 40].map((score, index) => ({ index, relevance_score: score }))
    node.answer((call) => call.respond(200, { results }))
    await gateway.node(node.url, { customerId: customer.customerId, serves: { '*': ['rerank'] } })
    const { body } = await ask('/v1/rerank', 'dreamer')
    expect(body).toMatchObject({ results: [{ index: 1, relevance_score: 1 }, { index: 0 }] })
  })

  test('a node with an agent takes no declaration, which its agent’s owner makes', async () => {
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    const home = startScriptedNode('at-home')
    started.push(home)
    await using agent = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [home.url] }))
    await untilState(gateway, agent.nodeId, 'ready')
    const refusal = patch(agent.nodeId, { '*': ['rerank'] }).catch(String)
    expect(await refusal).toContain('serves cannot be set for a node with an agent')
    await gateway.admin('PUT', '/v1/admin/models', { id: 'at-home', serves: ['rerank'] })
    expect(await worksOf('at-home')).toEqual(['chat'])
  })

  test.each([
    ['an unknown kind', { '*': ['dancing'] }],
    ['a kind twice', { '*': ['chat', 'chat'] }],
    ['no kind', { m: [] }],
    ['a name that no model has', { 'a b': ['chat'] }],
  ])('%s is refused before anything is written', async (_, serves) => {
    const refused = await fetch(`${gateway.url}/v1/admin/nodes`, {
      method: 'POST',
      headers: { 'x-svc-admin-token': gateway.tokens.admin, 'content-type': 'application/json' },
      body: JSON.stringify({
        customer_id: customer.customerId,
        url: 'http://127.0.0.1:9',
        visibility: 'private',
        privacy_class: 'private',
        node_class: 'gpu',
        serves,
      }),
    })
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ code: 'invalid_request' })
  })
})

describe('§35: learnt work', () => {
  test('what was asked for once and answered counts more than the name', async () => {
    await server('bge-reranker-mute', ['/v1/chat/completions'])
    expect(await worksOf('bge-reranker-mute')).toEqual(['rerank'])
    expect(await ask('/v1/chat/completions', 'bge-reranker-mute')).toMatchObject({ status: 200 })
    expect(await worksOf('bge-reranker-mute')).toEqual(['chat'])
  })

  test('a model whose name says nothing embeds and ranks on its first request for it', async () => {
    await server('jack', ['/v1/chat/completions', '/v1/embeddings', '/v1/rerank'])
    expect(await statuses('jack')).toEqual([200, 200, 200])
    expect(await worksOf('jack')).toEqual(['chat', 'embedding', 'rerank'])
  })

  test('it is kept in the database, so that a restart does not forget it', async () => {
    await server('kept', ['/v1/rerank'])
    expect(await ask('/v1/rerank', 'kept')).toMatchObject({ status: 200 })
    const rows = () => gateway.database.sql<{ answered: string[] }[]>`
      select answered from model_profiles where upstream_model_id = 'kept'`
    await waitFor('the row', async () => (await rows())[0]?.answered.includes('rerank') === true)
  })

  test('a server that does not do it is not blamed, and the refusal says who said so', async () => {
    const { nodeId } = await server('only-writes', ['/v1/chat/completions'])
    const refused = await ask('/v1/embeddings', 'only-writes')
    expect(refused).toMatchObject({ status: 400, code: 'modality_not_supported', body: { error: { param: 'model' } } })
    expect(refused.body.error?.message).toContain('only-writes was tried for this kind of work (embedding)')
    expect(refused.body.error?.message).not.toContain('127.0.0.1')
    expect(await worksOf('only-writes')).toEqual(['chat'])
    const seen = await gateway.admin<{ last_error: unknown; runtimes: { models: { times_ejected: number }[] }[] }>(
      'GET',
      `/v1/admin/nodes/${nodeId}`,
    )
    expect([seen.last_error, seen.runtimes[0]?.models[0]?.times_ejected]).toEqual([null, 0])
  })

  test('another node that does it serves the request', async () => {
    await server('mixed-pair', ['/v1/chat/completions'])
    await server('mixed-pair', ['/v1/embeddings'])
    expect(await ask('/v1/embeddings', 'mixed-pair')).toMatchObject({ status: 200 })
    // By now it is known which one.
    for (let round = 0; round < 3; round++) {
      expect(await ask('/v1/embeddings', 'mixed-pair')).toMatchObject({ status: 200 })
    }
  })

  test('only the owner tries a node: others are served what is known', async () => {
    const { node } = await server('open-house', ['/v1/chat/completions', '/v1/embeddings'], {
      visibility: 'public',
      privacyClass: 'public',
    })
    expect(await ask('/v1/embeddings', 'open-house', stranger.key)).toMatchObject({ code: 'modality_not_supported' })
    expect(node.calls).toBe(0)
    expect(await ask('/v1/embeddings', 'open-house')).toMatchObject({ status: 200 })
    expect(await ask('/v1/embeddings', 'open-house', stranger.key)).toMatchObject({ status: 200 })
    expect(await ask('/v1/chat/completions', 'open-house', stranger.key)).toMatchObject({ status: 200 })
  })

  test('an answer of another kind than the one that was asked for teaches nothing', async () => {
    const { node } = await server('confused', [])
    node.answer((call) => call.respond(200, answers['/v1/chat/completions']))
    expect(await ask('/v1/rerank', 'confused')).toMatchObject({ status: 400, code: 'modality_not_supported' })
    expect(await worksOf('confused')).toEqual(['chat'])
  })
})
