import { afterAll, beforeEach, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { pullSource } from '../../../src/node/pulls/pull-sources.ts'
import {
  type FileBytesAsked,
  hasEnded,
  nodeFileBytesPath,
  nodeFilesPath,
  type Pull,
  type PullList,
} from '../../../src/protocol/wire/nodes/pulls.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../../support/nodes/agents.ts'
import { ggufFile } from '../../support/nodes/gguf-file.ts'
import { modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { sha256 } from '../../support/nodes/model-hub.ts'
import { agentRuntime, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const whole = ggufFile(3_000_000)
const script = join(import.meta.dir, '../../support/nodes/model-server-script.ts')

/** Has the model. */

/** Gets it. */
let den: TestAgent

/** Has it, by its own word. */

let weights = ''

const served = (more: object = {}) => scriptModel('tiny', {}, { files: [{ path: weights }], ...more })
const dens = () => ({
  sources: ['nodes'].flatMap((text) => pullSource(text) ?? []),
  root: join(denFolder.path, 'models'),
  command: [process.execPath, script, '--model', '{model}', '--port', '{port}'],
  budgetBytes: 10e9,
  silenceMs: 8_000,
  times: { backoff: { firstMs: 1, maxMs: 5 }, failuresMax: 4 },
})

beforeEach(() => {
  liar?.respond(() => null)
})

const pulls = async () =>
  gateway
    .admin<PullList>('GET', `/v1/admin/nodes/${den.nodeId}/pulls`)
    .then(({ pulls: all }) => all)
    .catch(() => null)
afterAll(async () => {
  await den?.remove()
  rmSync(join(weights, '..'), { recursive: true, force: true })
})
const dir = mkdtempSync(join(tmpdir(), 'penstock-weights-'))
weights = join(dir, 'tiny-Q4_0.gguf')
writeFileSync(weights, whole)
const atticFolder = modelFolder({ memory_mb: 20_000, models: [served(), scriptModel('kept')] })
const denFolder = modelFolder({ memory_mb: 20_000, models: [] })
const gateway = await fixture(
  startTestGateway({
    env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_COPY_BYTES_PER_SECOND: '131072' },
  }),
)
const customer = await gateway.customer()
const token = async (endpointUrlAllowed = false) =>
  (await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed })).enrollment_token
const agent = async (dataDir: string, more: object) =>
  startAgent({
    ...{ gatewayUrl: gateway.url, token: await token(), runtimes: [], dataDir },
    serverTimes: { healthMs: 10, fileMs: 20 },
    ...more,
  })
const attic = await fixture(agent(atticFolder.path, { givesModels: true }))
den = await agent(denFolder.path, { pulls: dens() })
const liar = await fixture(startScriptedAgent(gateway.url, await token(true), [agentRuntime(newId('rt'), ['tiny'])]))
for (const [id, name] of [
  [attic.nodeId, 'Attic'],
  [den.nodeId, 'Den'],
  [liar.nodeId, 'Liar'],
]) {
  await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { name })
}
await untilState(gateway, attic.nodeId, 'ready')
await waitFor('the den', async () => (await pulls()) !== null)
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))

const pullOf = async (id: string) => (await pulls())?.find(({ pull_id }) => pull_id === id) ?? null
const ended = (id: string) =>
  waitFor('the end', async () => {
    const pull = await pullOf(id)
    return pull !== null && hasEnded(pull.state) ? pull : null
  })
const order = async (from: string, body: object, token = gateway.tokens.operator) =>
  (await gateway.admin<{ pull: Pull }>('POST', `/v1/admin/nodes/${from}/models/copy`, body, token)).pull
const stored = () =>
  readdirSync(join(denFolder.path, 'models'), { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
const fileOf = (model: string) => stored().find((path) => path.includes(`/${model}-`) && path.endsWith('.gguf'))

test('§39: `models copy` sends a model from one agent to another, and a request is answered by it there', async () => {
  const { code, out, err } = await cli.run([
    'models',
    'copy',
    'tiny',
    '--from',
    'Attic',
    '--to',
    'Den',
    '--name',
    'ours',
  ])
  expect([code, err.split('\n')[0]]).toEqual([0, 'waiting'])
  expect(out).toContain('ours is on Den: about ')
  expect(sha256(readFileSync(fileOf('ours') ?? ''))).toBe(sha256(whole))
  await waitFor('the model', async () => {
    const answer = await gateway.chat(customer.key, { model: 'ours', messages: [{ role: 'user', content: 'hi' }] })
    return answer.status === 200 && (await answer.text()).includes('ours from ')
  })
  const { models } = JSON.parse(readFileSync(join(denFolder.path, 'models.json'), 'utf8'))
  expect(models[0]).toMatchObject({ id: 'ours', files: [{ path: fileOf('ours'), sha256: sha256(whole) }] })
  const { events } = await gateway.admin<{ events: { metadata: object; target_id: string }[] }>(
    'GET',
    '/v1/admin/approval-events?action=node.model.copy&limit=5',
  )
  expect(events[0]).toMatchObject({ target_id: den.nodeId, metadata: { model: `node:${attic.nodeId}/tiny` } })
  expect(JSON.stringify(events)).not.toContain('127.0.0.1')
  expect((await cli.run(['models', 'pulls', 'Den'])).out).toContain('ours')
})

test('§39: a model goes only where both owners allow it, within one owner, by an operator, to a node that has an agent', async () => {
  const refusals: readonly (readonly [string, object, RegExp, string?])[] = [
    [attic.nodeId, { model: 'kept', to: 'Den' }, /409.*--give-models/s],
    [attic.nodeId, { model: 'none', to: 'Den' }, /404.*model_not_found/s],
    [attic.nodeId, { model: 'tiny', to: 'Nowhere' }, /404.*node_not_found/s],
    [attic.nodeId, { model: 'tiny', to: 'Attic' }, /400.*invalid_request/s],
    [attic.nodeId, { model: 'tiny', to: 'Liar', name: 'x' }, /502|409/],
    [den.nodeId, { model: 'ours', to: 'Attic' }, /409.*--give-models/s],
    [attic.nodeId, { model: '../x', to: 'Den' }, /400.*invalid_request/s],
    [attic.nodeId, { model: 'tiny', to: 'Den' }, /403/, gateway.tokens.viewer],
  ]
  for (const [from, body, says, token] of refusals) await expect(order(from, body, token)).rejects.toThrow(says)
  const other = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, other.customerId)
  await using foreign = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [] }))
  await waitFor('its tunnel', async () =>
    order(attic.nodeId, { model: 'tiny', to: foreign.nodeId }).catch((error: Error) =>
      /409.*different owners/s.test(error.message),
    ),
  )
})

/** The liar serves these bytes as it likes. `sent`: what it was asked for. */
function lies(more: {
  readonly listed?: object
  readonly answer?: (asked: FileBytesAsked, turn: number) => Response | null
}): readonly FileBytesAsked[] {
  const sent: FileBytesAsked[] = []
  const listed = more.listed ?? { files: [{ name: 'tiny.gguf', bytes: whole.length, sha256: sha256(whole) }] }
  liar.respond(({ path, body }) => {
    if (path === nodeFilesPath) return Response.json(listed)
    if (path !== nodeFileBytesPath) return null
    const asked = JSON.parse(body) as FileBytesAsked
    if (asked.to === undefined) sent.push(asked)
    return (asked.to === undefined ? more.answer?.(asked, sent.length) : null) ?? honestly(asked)
  })
  return sent
}
function part(asked: FileBytesAsked, body: Uint8Array | ReadableStream<Uint8Array>): Response {
  const last = Math.min(asked.to ?? whole.length - 1, whole.length - 1)
  const headers = { 'content-range': `bytes ${asked.from}-${last}/${whole.length}` }
  return new Response(body as BodyInit, { status: 206, headers })
}
const honestly = (asked: FileBytesAsked) => part(asked, whole.subarray(asked.from, (asked.to ?? whole.length - 1) + 1))
const honest = { files: [{ name: 'tiny.gguf', bytes: whole.length, sha256: sha256(whole) }] }
const stalling = (bytes: Uint8Array) => {
  const begun = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytes),
    pull: () => begun.resolve(),
    cancel: () => left.resolve(),
  })
  return { body, begun: begun.promise, left: left.promise }
}

test('§39: a copy that is cut goes on where it stopped', async () => {
  const asked = lies({ answer: (each, turn) => (turn === 1 ? part(each, whole.subarray(0, 1_000_000)) : null) })
  const pull = await ended((await order(liar.nodeId, { model: 'tiny', to: 'Den', name: 'cut' })).pull_id)
  expect([pull.state, pull.failure]).toEqual(['done', null])
  const [first, second, ...more] = asked
  expect([first?.from, more]).toEqual([0, []])
  expect(second?.from).toBeGreaterThan(0)
  expect(sha256(readFileSync(fileOf('cut') ?? ''))).toBe(sha256(whole))
})

const other = Uint8Array.from(whole)
other[whole.length - 1] = (other.at(-1) ?? 0) ^ 1
const listed = (more: object) => ({
  files: [{ name: 'tiny.gguf', bytes: whole.length, sha256: sha256(whole), ...more }],
})
test.each([
  [
    'of other bytes than its hash says',
    { answer: (asked: FileBytesAsked) => part(asked, other.subarray(asked.from)) },
    'wrong_hash',
  ],
  [
    'longer than it said',
    { answer: (asked: FileBytesAsked) => part(asked, Buffer.concat([whole.subarray(asked.from), Buffer.alloc(9)])) },
    'hub_unavailable',
  ],
  [
    'that says another length to the gateway than in its list',
    { listed: listed({ bytes: whole.length - 1_000 }) },
    'wrong_hash',
  ],
  ['that leads out of the folder', { listed: listed({ name: '../../../etc/x.gguf' }) }, 'hub_malformed'],
  ['with an absolute name', { listed: listed({ name: '/tmp/x.gguf' }) }, 'hub_malformed'],
  ['of more bytes than the owner gives', { listed: listed({ bytes: 12e9 }) }, 'over_budget'],
  ['that always breaks', { answer: (asked: FileBytesAsked) => part(asked, new Uint8Array()) }, 'hub_unavailable'],
  [
    'of which other bytes come than were asked for',
    { answer: (asked: FileBytesAsked) => part({ ...asked, from: asked.from + 1 }, whole.subarray(1)) },
    'hub_unavailable',
  ],
] as const)('§39: a source with a file %s is not believed (%#)', async (_, how, failure) => {
  lies(how as Parameters<typeof lies>[0])
  const name = `bad-${failure.replaceAll('_', '-')}-${crypto.randomUUID().slice(0, 8)}`
  const pull = await ended((await order(liar.nodeId, { model: 'tiny', to: 'Den', name })).pull_id)
  expect([pull.state, pull.failure]).toEqual(['failed', failure])
  expect(fileOf(name)).toBeUndefined()
  expect(existsSync('/tmp/x.gguf')).toBe(false)
})

test('§39: a list that is none is refused with the order', async () => {
  for (const wrong of [{ files: [] }, { files: [{ name: 'a', bytes: 1, sha256: 'x' }] }, 'x']) {
    lies({ listed: wrong as object })
    await expect(order(liar.nodeId, { model: 'tiny', to: 'Den' })).rejects.toThrow(/502.*upstream_error/s)
  }
})

test('§39: a copy that is cancelled lets go of the node that has the model; after a restart of the other one it goes on', async () => {
  const [first, second] = [stalling(whole.subarray(0, 700_000)), stalling(whole.subarray(700_000, 900_000))]
  const asked = lies({
    answer: (each, turn) => (turn === 1 ? part(each, first.body) : turn === 2 ? part(each, second.body) : null),
  })
  const body = { model: 'tiny', to: 'Den', name: 'again' }
  const { pull_id: id } = await order(liar.nodeId, body)
  await waitFor('its bytes', async () => (await pullOf(id))?.bytes_done === 700_000)
  await gateway.admin('POST', `/v1/admin/nodes/${den.nodeId}/pulls/${id}/cancel`, {})
  await first.left
  const { pull_id: next } = await order(liar.nodeId, body)
  await waitFor('more bytes', async () => (await pullOf(next))?.bytes_done === 900_000)
  await den.node.stop()
  await second.left
  den = await den.restart({ pulls: dens() })
  await waitFor('the den', async () => (await pulls())?.length === 0)
  const pull = await ended((await order(liar.nodeId, body)).pull_id)
  expect([pull.state, pull.failure]).toEqual(['done', null])
  expect(asked.map(({ from }) => from)).toEqual([0, 700_000, 900_000])
  expect(sha256(readFileSync(fileOf('again') ?? ''))).toBe(sha256(whole))
})

test('§39: while a stream is open a copy goes at the rate that is set, and without one as fast as it can', async () => {
  lies({})
  const talks = startFakeNode({ models: ['talks'], answer: { chunks: 100_000, intervalMs: 50 } })
  await gateway.node(talks.url, { customerId: customer.customerId })
  const leaves = new AbortController()
  const stream = await gateway.chat(
    customer.key,
    { model: 'talks', stream: true, messages: [{ role: 'user', content: 'hi' }] },
    { signal: leaves.signal },
  )
  try {
    const { pull_id: id } = await order(liar.nodeId, { model: 'tiny', to: 'Den', name: 'beside' })
    await waitFor('its bytes', async () => ((await pullOf(id))?.bytes_done ?? 0) > 0)
    // Each of them takes longer than all bytes would.
    for (let asked = 0; asked < 10; asked++) expect((await pullOf(id))?.state).toBe('fetching')
    leaves.abort()
    const pull = await ended(id)
    expect([pull.state, pull.failure]).toEqual(['done', null])
  } finally {
    leaves.abort()
    void stream.body?.cancel().catch(() => {})
    talks.stop()
  }
})

test('§39: a source that says nothing any more is given up, and one that does not hash in time is waited for', async () => {
  const silent = stalling(whole.subarray(0, 1_000))
  let looks = 0
  lies({ answer: (each) => part(each, silent.body) })
  liar.respond(({ path, body }) => {
    if (path === nodeFilesPath) {
      looks++
      return looks < 3 ? Response.json({ status: 'hashing' }, { status: 202 }) : Response.json(honest)
    }
    if (path !== nodeFileBytesPath) return null
    const asked = JSON.parse(body) as FileBytesAsked
    return asked.to === undefined && asked.from === 0 ? part(asked, silent.body) : honestly(asked)
  })
  const pull = await ended((await order(liar.nodeId, { model: 'tiny', to: 'Den', name: 'slow' })).pull_id)
  expect([pull.state, looks]).toEqual(['done', 3])
  await silent.left
})

test('§39: two copies to one node run one after the other, and the same one twice is one', async () => {
  let ordered = false
  liar.respond(({ path, body }) => {
    if (path === nodeFileBytesPath) return honestly(JSON.parse(body) as FileBytesAsked)
    if (path !== nodeFilesPath) return null
    return ordered ? Response.json(honest) : Response.json({ status: 'hashing' }, { status: 202 })
  })
  const bodies = ['one', 'two', 'one'].map((name) => ({ model: 'tiny', to: 'Den', name }))
  const [one, two, again] = await Promise.all(bodies.map((body) => order(liar.nodeId, body)))
  expect(again?.pull_id).toBe(one?.pull_id ?? '')
  const both = await Promise.all([one, two].map((pull) => pullOf(pull?.pull_id ?? '')))
  expect(both.map((pull) => pull?.state).filter((state) => state === 'waiting')).toHaveLength(1)
  ordered = true
  const ends = await Promise.all([one, two].map((pull) => ended(pull?.pull_id ?? '')))
  expect(ends.map(({ state }) => state)).toEqual(['done', 'done'])
})
