import { expect, test } from 'bun:test'
import { newId } from '../../../src/ids.ts'
import type { NodeStatus } from '../../../src/protocol/wire/nodes/agent.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, nodeOf, untilState } from '../../support/nodes/agents.ts'
import { newIdentity, transportKeyOf } from '../../support/nodes/enrolling.ts'
import { agentRuntime, type ScriptedAgent, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const [first, second] = [newId('rt'), newId('rt')]
const both = [agentRuntime(first, ['m-1', 'shared']), agentRuntime(second, ['m-2', 'shared'], { kind: 'ollama' })]

const enrolled = async (runtimes = both) => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
  return startScriptedAgent(gateway.url, token, runtimes)
}

const gateway = await fixture(startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8' } }))
const customer = await gateway.customer()
const agent = await fixture(enrolled())
await untilState(gateway, agent.nodeId, 'ready')

const ask = (model: string, more: object = {}) =>
  gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'x' }], ...more })
const profileOf = async (runtimeId: string, model: string): Promise<string> => {
  const [row] = await gateway.database.sql<{ profile_id: string }[]>`
    select profile_id from model_profiles where runtime_id = ${runtimeId} and upstream_model_id = ${model}`
  return row?.profile_id ?? ''
}

test('§22: two runtimes on one agent, each with its own models; a call says which one is meant', async () => {
  const node = await nodeOf(gateway, agent.nodeId)
  expect(node).toMatchObject({ kind: 'agent', transport: 'direct', state: 'ready' })
  const shown = node.runtimes.map(({ runtime_id, models }) => [runtime_id, models.map(({ model }) => model).sort()])
  expect(Object.fromEntries(shown)).toEqual({ [first]: ['m-1', 'shared'], [second]: ['m-2', 'shared'] })
  for (const [model, runtime] of [
    ['m-1', first],
    ['m-2', second],
  ] as const) {
    const answer = await ask(model, { svc: { job_id: 'job-7' } })
    expect(answer.status).toBe(200)
    expect(((await answer.json()) as { svc: { runtime_id: string } }).svc.runtime_id).toBe(runtime)
    const call = agent.calls.at(-1)
    expect(call?.path).toBe('/v1/chat/completions')
    expect(call?.headers.get('x-svc-runtime-id')).toBe(runtime)
    expect(call?.headers.get('x-svc-model-id')).toBe(model)
    expect(call?.headers.get('x-svc-job-id')).toBe('job-7')
    expect(call?.headers.get('x-svc-request-id')).toMatch(/^req_/)
    expect(call?.headers.get('authorization')).toBeNull()
  }
})

test('§9: a profile is one model on one runtime: naming it chooses between two runtimes of one node', async () => {
  for (const runtime of [second, first, second]) {
    const answer = await ask('shared', { svc: { model_profile_id: await profileOf(runtime, 'shared') } })
    expect(answer.status).toBe(200)
    expect(agent.calls.at(-1)?.headers.get('x-svc-runtime-id')).toBe(runtime)
  }
})

test('§22: every request, polls too, bears a fresh signature over its exact body', () => {
  expect(agent.badSignatures()).toBe(0)
  expect(agent.calls.length).toBeGreaterThan(0)
})

test('§22: a runtime that is no longer reported serves nothing, the other goes on', async () => {
  agent.honest([agentRuntime(first, ['m-1', 'shared'])])
  await waitFor('the runtime to go', async () => (await nodeOf(gateway, agent.nodeId)).runtimes.length === 1)
  expect((await ask('m-2')).status).toBe(503)
  expect((await ask('m-1')).status).toBe(200)
  agent.honest(both)
  await waitFor('it to come back', async () => (await ask('m-2')).status === 200)
})

const replayed: NodeStatus[] = []
const lies: readonly (readonly [string, Parameters<ScriptedAgent['answer']>[0], string])[] = [
  [
    'a status that was changed after it was signed',
    (signed) => Response.json({ ...signed({ runtimes: both }), runtimes: [agentRuntime(first, ['stolen'])] }),
    'signature_invalid',
  ],
  [
    'one without a signature',
    (signed) => Response.json({ ...signed(), signature_ed25519: undefined }),
    'signature_invalid',
  ],
  [
    "another node's",
    (signed) => Response.json(signed({ node_id: 'node_0', runtimes: [agentRuntime(first, ['stolen'])] })),
    'signature_invalid',
  ],
  [
    'an old one, told again',
    (signed) => {
      replayed.push(signed({ runtimes: [agentRuntime(first, ['stolen'])] }))
      return Response.json(replayed.length === 1 ? {} : replayed[0])
    },
    'signature_invalid',
  ],
  ['members of another form', (signed) => Response.json(signed({ runtimes: {} } as object)), 'malformed'],
  ['no JSON at all', () => new Response('<html>'), 'malformed'],
  ['an error', () => Response.json({}, { status: 500 }), 'malformed'],
  ['a refusal', () => Response.json({}, { status: 401 }), 'unauthorized'],
]

test.each(lies)('§22: nothing unsigned is believed: %s', async (_, lie, code) => {
  agent.honest(both)
  await untilState(gateway, agent.nodeId, 'ready')
  agent.answer(lie)
  await waitFor('the lie to be seen', async () => {
    const { state, last_error } = await nodeOf(gateway, agent.nodeId)
    return state === 'live' && last_error?.code === code
  })
  expect((await ask('stolen')).status).toBe(404)
  expect((await ask('m-1')).status).toBe(503)
})

test('§22: model ids are filtered one by one, models that rank take no chat', async () => {
  const odd = agentRuntime(first, ['m-1', '../etc/passwd', 'a b', 'x'.repeat(129)])
  const ranking = { id: 'ranker', modality: 'rerank' as const, ready: true, loaded: null, context_length: null }
  agent.honest([{ ...odd, models: [...odd.models, ranking] }, agentRuntime(second, ['m-new'])])
  await waitFor('the new model', async () => (await ask('m-new')).status === 200)
  const { runtimes } = await nodeOf(gateway, agent.nodeId)
  const ready = runtimes.flatMap(({ models }) => models.filter((model) => model.ready).map(({ model }) => model))
  expect(ready.sort()).toEqual(['m-1', 'm-new', 'ranker'])
  const refused = await ask('ranker')
  expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: 'modality_not_supported' } }])
  agent.honest(both)
})

test('§22: what only a later version knows of a status is left out, and the rest counts', async () => {
  const model = { id: 'm-later', modality: 'chat', ready: true, loaded: true, context_length: null }
  const later = {
    ...agentRuntime(first, ['m-1']),
    models: [
      { ...model, weights: 'fp2', server_state: 'dreaming', evicts: false },
      { ...model, id: 'm-smell', modality: 'smell' },
    ],
    engine: { name: 'e' },
  }
  const unread = { ...agentRuntime(second, ['m-2']), state: 'levitating' }
  agent.answer((signed) =>
    Response.json(signed({ runtimes: [later, unread], weather: { sun: true }, hardware: { quanta: 3 } } as object)),
  )
  await waitFor('the model', async () => (await ask('m-later')).status === 200)
  const node = await nodeOf(gateway, agent.nodeId)
  expect(node.state).toBe('ready')
  const ready = node.runtimes.flatMap(({ models }) => models.filter((one) => one.ready).map((one) => one.model))
  expect(ready).toEqual(['m-later'])
  agent.honest(both)
  await waitFor('the old models', async () => (await ask('m-2')).status === 200)
})

test("§22: another node's runtime cannot be claimed", async () => {
  const thief = await enrolled([agentRuntime(first, ['loot']), agentRuntime(newId('rt'), ['own'])])
  await untilState(gateway, thief.nodeId, 'ready')
  const { runtimes } = await nodeOf(gateway, thief.nodeId)
  expect(runtimes.flatMap(({ models }) => models.map(({ model }) => model))).toEqual(['own'])
  expect((await ask('loot')).status).toBe(404)
  await thief.stop()
})

test('§10: transport keys are kept as published, when the node itself has signed them', async () => {
  const stored = async () => {
    const [row] = await gateway.database.sql<{ keys: { key_id: string }[] }[]>`
      select transport_keys as keys from nodes where node_id = ${agent.nodeId}`
    return row?.keys.map(({ key_id }) => key_id)
  }
  const own = [transportKeyOf(agent.identity), { ...transportKeyOf(agent.identity) }]
  const foreign = transportKeyOf(newIdentity())
  agent.answer((signed) => Response.json(signed({ runtimes: both, transport_keys: [...own, foreign] })))
  const ids = own.map(({ key_id }) => key_id)
  await waitFor('the keys to be stored', async () => (await stored())?.includes(ids[0] ?? '') === true)
  expect(await stored()).toEqual(ids)
  const version = async () => {
    const [row] = await gateway.database.sql`select version from directory_versions where topic = 'nodes'`
    return row?.version as string
  }
  // What has not changed is not written again, once the pool has read the last change of this node and of those before it.
  await waitUntil('polls that write nothing', async () => {
    const before = await version()
    await agent.polled()
    await agent.polled()
    return (await version()) === before
  })
  agent.honest(both)
})

test('§23: drain, resume and revoke work on an agent as on any node', async () => {
  await untilState(gateway, agent.nodeId, 'ready')
  await gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/drain`)
  expect((await ask('m-1')).status).toBe(503)
  await gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/resume`)
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await ask('m-1')).status).toBe(200)
  await gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/revoke`)
  expect((await ask('m-1')).status).toBe(404)
  expect(await nodeOf(gateway, agent.nodeId)).toMatchObject({ state: 'revoked', transport: null })
})
