import { afterAll, describe, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { startWatchedGateway } from '../../support/gateways/watched-gateway.ts'
import { everyRow, type Row } from '../../support/leaks/every-row.ts'
import { findAll } from '../../support/leaks/leak-markers.ts'
import { fixture } from '../../support/run/fixture.ts'

const names = ['a', 'b', 'c', 'agg'] as const
type Name = (typeof names)[number]
const mark = (what: string) => `mk-${what}-${crypto.randomUUID().replaceAll('-', '')}`
const prompt = mark('prompt')
/** What each machine says, thinks, and calls. */
const said = Object.fromEntries(names.map((name) => [name, mark(`said-by-${name}`)])) as Record<Name, string>
const thought = Object.fromEntries(names.map((name) => [name, mark(`thought-by-${name}`)])) as Record<Name, string>
const markers = { prompt, ...said, ...Object.fromEntries(names.map((name) => [`thought ${name}`, thought[name]])) }

const everyone = names.slice(0, 3).map((model, at) => ({ model, weight: 3 - at }))
const mixtures = (['synthesize', 'vote', 'weighted'] as const).map((strategy) => ({
  strategy,
  experts: everyone,
  aggregator: { model: 'agg' },
}))

let database: readonly Row[] = []
const answers: { readonly speaker: Name | null; readonly text: string; readonly headers: string }[] = []
const reads: Record<string, string> = {}

const post = (mixture: object, more: object, signal: AbortSignal | null = null) =>
  postJson(
    `${gateway.url}/v1/api/chat/completions`,
    gateway.credentials.gateway_key,
    {
      model: 'council',
      messages: [{ role: 'user', content: prompt }],
      svc: { mixture },
      ...more,
    },
    { signal },
  )

async function ask(mixture: object, speaker: Name | null, more: object = {}): Promise<void> {
  const response = await post(mixture, more)
  const text = await response.text()
  expect([response.status, text.length > 0]).toEqual([speaker === null ? 503 : 200, true])
  answers.push({ speaker, text, headers: JSON.stringify([...response.headers]) })
}

/** A client that is gone while the machine `at` works. */
async function leave(mixture: object, at: Name): Promise<void> {
  nodes[at].setFaults({ kind: 'hang' })
  const [leaving, arrived, gone] = [new AbortController(), nodes[at].nextRequest(), nodes[at].nextAbort()]
  const asked = post(mixture, {}, leaving.signal).catch(() => null)
  await arrived
  leaving.abort()
  await Promise.all([asked, gone])
  nodes[at].clearFaults()
}

const admin = async (path: string, token: string) =>
  (
    await fetch(gateway.url + path, { headers: { 'x-svc-admin-token': token, authorization: `Bearer ${token}` } })
  ).text()

afterAll(async () => {
  for (const node of Object.values(nodes ?? {})) node.stop()
})
const gateway = await fixture(
  startWatchedGateway({
    SVC_PORT: '0',
    SVC_LOG_LEVEL: 'debug',
    SVC_DISCOVER: 'false',
    SVC_WARM_UP: 'false',
    SVC_DEMO: 'never',
    SVC_POLL_INTERVAL_MS: '100',
  }),
)
const { admin_token: adminToken, customer_id: customerId, viewer_token, operator_token } = gateway.credentials
const nodes = Object.fromEntries(
  names.map((name) => [
    name,
    startFakeNode({ models: [name], answer: { text: said[name], reasoning: thought[name], chunks: 1, leak: true } }),
  ]),
) as Record<Name, FakeNode>
for (const { url } of Object.values(nodes)) {
  const body = { customer_id: customerId, url, visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  await fetch(`${gateway.url}/v1/admin/nodes`, {
    method: 'POST',
    headers: { 'x-svc-admin-token': adminToken, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}
await waitFor('the machines', async () => {
  const text = await admin('/v1/admin/nodes', adminToken)
  return text.split('"state":"ready","state_since"').length === names.length + 1
})
for (const mixture of mixtures) {
  const speaker = mixture.strategy === 'synthesize' ? 'agg' : 'a'
  for (const stream of [false, true]) await ask(mixture, speaker, { stream })
  // Degraded, then a missed quorum: what the others said must go nowhere.
  nodes.a.setFaults({ kind: 'status500' })
  await ask(mixture, speaker === 'agg' ? 'agg' : 'b')
  for (const stream of [false, true]) await ask({ ...mixture, min_experts: 3 }, null, { stream })
  nodes.a.clearFaults()
  await leave(mixture, speaker === 'agg' ? 'agg' : 'c')
}
nodes.agg.setFaults({ kind: 'errorEvent' })
await ask(mixtures[0] ?? {}, 'a')
reads.metrics = await admin('/metrics', viewer_token)
for (const [role, token] of [
  ['viewer', viewer_token],
  ['operator', operator_token],
  ['admin', adminToken],
] as const) {
  reads[`mixtures as ${role}`] = await admin('/v1/admin/mixtures?limit=1000', token)
}
const requests = JSON.parse(reads['mixtures as admin'] ?? '') as {
  mixtures: readonly { request_id: string; experts: readonly { request_id: string | null }[] }[]
}
const ids = requests.mixtures.flatMap(({ request_id, experts }) => [
  request_id,
  ...experts.map((one) => one.request_id),
])
for (const id of ids)
  if (id !== null) reads[`explain ${id}`] = await admin(`/v1/admin/explain?request_id=${id}`, adminToken)
await waitFor('the receipts', async () => {
  database = await everyRow(gateway.databaseUrl)
  const groups = database.filter(({ table }) => table === 'receipt_groups')
  return groups.reduce((sum, { row }) => sum + Number(JSON.parse(row).rows), 0) > 30
})

describe('rule 6: what an expert says is kept nowhere', () => {
  test('the run has really happened', () => {
    expect(answers.filter(({ speaker }) => speaker !== null)).toHaveLength(10)
    expect(answers.filter(({ speaker }) => speaker === null)).toHaveLength(6)
    expect(JSON.stringify(nodes.agg.requests.map(({ body }) => body))).toContain(said.c)
    expect(JSON.parse(reads['mixtures as viewer'] ?? '').count).toBe(answers.length + mixtures.length)
    expect(reads.metrics).toContain('svc_mixture_total{')
  })

  test('in an answer only what its speaker said', () => {
    for (const { speaker, text, headers } of answers) {
      const others = names.filter((name) => name !== speaker)
      const hidden = Object.fromEntries(
        others.flatMap((name) => [
          [name, said[name]],
          [`thought ${name}`, thought[name]],
        ]),
      )
      expect(findAll('an answer', [text, headers], { ...hidden, prompt })).toEqual([])
      if (speaker !== null) expect(text).toContain(said[speaker])
    }
  })

  test('in no table of the database', () => {
    expect(new Set(database.map(({ table }) => table)).size).toBeGreaterThan(5)
    // The search sees what is there.
    expect(JSON.stringify(database)).toContain(nodes.a.url)
    expect(
      findAll(
        'a row',
        database.map(({ table, row }) => `${table} ${row}`),
        markers,
      ),
    ).toEqual([])
  })

  test('in no metric, no list of mixtures and no explanation, whoever asks', () => {
    expect(Object.keys(reads).length).toBeGreaterThan(20)
    for (const [place, text] of Object.entries(reads)) expect(findAll(place, [text], markers)).toEqual([])
  })

  test('in no log, on no output, in no file', async () => {
    await gateway.stop()
    expect(gateway.logged().split('\n').length).toBeGreaterThan(answers.length)
    expect(findAll('the log', [gateway.logged()], markers)).toEqual([])
    expect(findAll('standard output', [gateway.printed()], markers)).toEqual([])
    const found: string[] = []
    let files = 0
    for (const { name, bytes } of gateway.files()) {
      files++
      for (const [what, marker] of Object.entries(markers)) if (bytes.includes(marker)) found.push(`${what} in ${name}`)
    }
    expect(files).toBeGreaterThan(100)
    expect(found).toEqual([])
  })
})
