import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { InspectReader } from '../support/console/inspect-reader.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { modelFolder, scriptModel } from '../support/nodes/model-files.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * A node that quotes the headers of its request, as debugging servers and proxies do, handed its API key to the client: in the
 * message of a 400 and of a 500, in an error under a 200, and in an error event.
 */

const secret = 'sk-node/7QxR-92aa'
const models = ['m', 'whisper-1']

type Quote = (quoted: string, request: Request) => Response
const error = (message: string, code = 'invalid_request_error') => ({ error: { message, type: code, code } })
const events = (...texts: readonly string[]) =>
  new Response(texts.join(''), { headers: { 'content-type': 'text/event-stream' } })
const chunk = (delta: object) =>
  `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
const refusing = { type: 'invalid_request_error', code: 400 }

/** Each says it in the words of a refusal, so that they are told to the client at all. */
const quotes: Readonly<Record<string, Quote>> = {
  'a 400': (quoted) => Response.json(error(`no template for ${quoted}`), { status: 400 }),
  'a 400 that is no JSON': (quoted) => new Response(`bad request: ${quoted}`, { status: 400 }),
  'a 400 with details': (quoted) => Response.json({ detail: [{ msg: `odd field in ${quoted}` }] }, { status: 422 }),
  'a 400, in JSON within JSON': (quoted) =>
    Response.json(error(`it got ${JSON.stringify({ quoted })}`), { status: 400 }),
  'a 400, in base64': (quoted) => Response.json(error(`it got ${btoa(quoted).slice(0, 36)}`), { status: 400 }),
  'a 400, in a URL': (quoted) => Response.json(error(`it got q=${encodeURIComponent(quoted)}`), { status: 400 }),
  'a 401': (quoted) => Response.json(error(quoted), { status: 401 }),
  'a 500 of a picture': (quoted) =>
    Response.json(error(`images are not supported, ${quoted}`, 'server'), { status: 500 }),
  'a 500': (quoted) => new Response(quoted, { status: 500, statusText: quoted }),
  'an error under a 200': (quoted) => Response.json({ error: { ...refusing, message: `no: ${quoted}` } }),
  'an error event': (quoted) =>
    events(`data: ${JSON.stringify({ error: { ...refusing, message: `no: ${quoted}` } })}\n\n`),
  'an error line': (quoted) => events(`error: ${JSON.stringify({ ...refusing, message: quoted })}\n\n`),
  'an error event behind content': (quoted) =>
    events(
      chunk({ role: 'assistant', content: 'Hi' }),
      `data: ${JSON.stringify({ error: { ...refusing, message: quoted } })}\n\n`,
    ),
  'other members of a chunk': (quoted) =>
    events(
      `data: ${JSON.stringify({ id: quoted, model: quoted, system_fingerprint: quoted, debug: quoted, choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: quoted }] })}\n\n`,
      'data: [DONE]\n\n',
    ),
  'headers, a status line and a redirect': (quoted) =>
    new Response(null, {
      status: 307,
      statusText: 'x',
      headers: { location: `http://x/?${encodeURIComponent(quoted)}`, 'x-debug': quoted },
    }),
}

const mediaQuotes: Readonly<Record<string, Quote>> = {
  'an error in two pieces': (quoted) =>
    inPieces(`{"error": {"message": "no: `, `${quoted}", "type": "x", "code": 400}}`),
  'an error event': (quoted) => events(`event: error\ndata: ${JSON.stringify(error(`no: ${quoted}`))}\n\n`),
  'an error event behind text': (quoted) =>
    new Response(
      new ReadableStream({
        start: async (controller) => {
          controller.enqueue(Buffer.from('data: {"type":"transcript.text.delta","delta":"la"}\n\n'))
          await lasts(20)
          controller.enqueue(Buffer.from(`data: ${JSON.stringify(error(`no: ${quoted}`))}\n\n`))
          controller.close()
        },
      }),
      { headers: { 'content-type': 'text/event-stream' } },
    ),
  'its content type': () =>
    new Response('x', { headers: { 'content-type': `audio/${btoa(secret).toLowerCase().replaceAll('=', '')}` } }),
}

const inPieces = (...pieces: readonly string[]) =>
  new Response(
    new ReadableStream({
      start: async (controller) => {
        for (const piece of pieces) {
          controller.enqueue(Buffer.from(piece))
          await lasts(20)
        }
        controller.close()
      },
    }),
    { headers: { 'content-type': 'application/json' } },
  )

/** A model server that names its models after its key as well, and tells of it wherever it can. */
function startQuotingNode() {
  let quote: Quote | null = null
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const quoted = JSON.stringify(Object.fromEntries(request.headers))
      const { pathname } = new URL(request.url)
      if (pathname === '/v1/models') {
        const names = [...models, secret, `m-${secret}`, secret.toUpperCase()]
        const data = names.map((id) => ({ id, object: 'model', owned_by: quoted, created: 1 }))
        return Response.json(
          { object: 'list', data, [quoted]: quoted },
          { headers: { server: 'x', 'x-debug': quoted } },
        )
      }
      if (request.method === 'GET')
        return Response.json({ version: quoted, model_path: quoted, error: quoted }, { status: 404 })
      await request.arrayBuffer()
      return quote?.(quoted, request) ?? new Response('ok')
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    says: (next: Quote) => {
      quote = next
    },
    stop: () => server.stop(true),
  }
}

const node = await fixture(startQuotingNode())
const gateway = await fixture(
  startTestGateway({
    SVC_POLL_INTERVAL_MS: '100',
    SVC_EJECTION_CALLS: '1000000',
    SVC_QUEUE_WAIT_MS: '50',
  }),
)
const { customer_id } = await json(
  await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'A' } }),
)
const issued = await gateway.ask('POST', `/v1/admin/customers/${customer_id}/keys`, {
  as: 'admin',
  json: { name: 'a' },
})
const key = String((await json(issued)).gateway_key)
const made = await gateway.ask('POST', '/v1/admin/nodes', {
  as: 'operator',
  json: {
    customer_id,
    url: node.url,
    api_key: secret,
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  },
})
const nodeId = String((await json(made)).node_id)
await waitUntil(
  'the node',
  async () => (await json(await gateway.ask('GET', `/v1/admin/nodes/${nodeId}`, { as: 'viewer' }))).state === 'ready',
)
const agent = await fixture(startLoneAgent({ runtimes: [node.url], runtimeKeys: [{ url: node.url, apiKey: secret }] }))

/** No spelling of what the node was told. */
function expectStruck(where: string, text: string): void {
  const spelt = [
    secret,
    secret.replaceAll('/', '\\/'),
    encodeURIComponent(secret),
    btoa(secret).slice(4, 20),
    '7QxR-92aa',
  ]
  for (const one of spelt) expect([where, text.toLowerCase().includes(one.toLowerCase())]).toEqual([where, false])
  expect([where, /sig=[\w-]{8}|nonce=[\w-]{8}/.test(text)]).toEqual([where, false])
}
const headersOf = (response: Response) => JSON.stringify([...response.headers])

test('§5: whatever a node quotes of its request in an error, its key reaches no client', async () => {
  for (const [place, quote] of Object.entries(quotes)) {
    for (const stream of [false, true]) {
      node.says(quote)
      const messages = [{ role: 'user', content: 'hi' }]
      const sent = { headers: { authorization: `Bearer ${key}` }, json: { model: 'm', messages, stream } }
      const response = await gateway.ask('POST', '/v1/chat/completions', sent)
      const text = await response.text()
      expectStruck(`${place}, stream ${stream}`, text + headersOf(response))
      const local = await postJson(`${agent.node.url}/v1/chat/completions`, agent.localToken, sent.json)
      expectStruck(`${place} of an agent, stream ${stream}`, (await local.text()) + headersOf(local))
    }
  }
  // The refusals were told, and not simply left out.
  node.says(quotes['a 400'] as Quote)
  const told = await gateway.ask('POST', '/v1/chat/completions', {
    headers: { authorization: `Bearer ${key}` },
    json: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  })
  expect(await told.text()).toContain('no template for')
})

test('§5: nor in what a node says in place of sound', async () => {
  for (const [place, quote] of Object.entries(mediaQuotes)) {
    node.says(quote)
    const form = new FormData()
    form.set('model', 'whisper-1')
    form.set('file', new File(['sound'], 'a.wav'))
    const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: form,
    })
    expectStruck(place, (await response.text().catch(() => '')) + headersOf(response))
  }
})

test('§5: nor in names of models, pages, events and logs', async () => {
  const inspecting = new InspectReader(await gateway.ask('GET', '/v1/admin/inspect', { as: 'viewer' }))
  await inspecting.next('snapshot')
  const probe = { as: 'operator', json: { url: `${node.url}/v1`, api_key: secret } } as const
  const probed = await (await gateway.ask('POST', '/v1/admin/nodes/probe', probe)).text()
  expect(probed).toContain('whisper-1')
  expectStruck('the probe', probed)
  const pages = ['/v1/admin/nodes', `/v1/admin/nodes/${nodeId}`, '/v1/admin/models', '/v1/admin/requests', '/metrics']
  for (const path of pages) {
    const headers = path === '/metrics' ? { authorization: `Bearer ${gateway.tokens.viewer}` } : {}
    const response = await gateway.ask('GET', path, { as: 'viewer', headers })
    expect([path, response.status]).toEqual([path, 200])
    expectStruck(path, await response.text())
  }
  const listed = await (await gateway.ask('GET', '/v1/models', { headers: { authorization: `Bearer ${key}` } })).text()
  expect(listed).toContain('"m"')
  expectStruck('the model list', listed)
  const { requests } = (await json(await gateway.ask('GET', '/v1/admin/requests', { as: 'viewer' }))) as {
    readonly requests: readonly { readonly request_id: string }[]
  }
  expect(requests.length).toBeGreaterThan(5)
  for (const { request_id } of requests.slice(0, 20)) {
    const explained = await gateway.ask('GET', `/v1/admin/requests/${request_id}`, { as: 'viewer' })
    expectStruck('explain', await explained.text())
  }
  expectStruck('the console', inspecting.text)
  expectStruck('the log', JSON.stringify(gateway.logged()))
  expectStruck('the log of the agent', agent.log())
  expectStruck(
    'the status of the agent',
    await (
      await agent.call('GET', '/svc/v1/status', null, { headers: { 'x-svc-status-nonce': 'A'.repeat(22) } })
    ).text(),
  )
})

test('§30: nor in the last lines of a model server that writes its arguments', async () => {
  const folder = modelFolder({
    memory_mb: 80,
    models: [scriptModel('a', { 'die-with': '3', 'api-key': secret }, { env: { SOME_TOKEN: 'tok-4711-4711' } })],
  })
  const own = await startLoneAgent({ dataDir: folder.path, serverTimes: { backoffMs: 60_000 } })
  const asked = await own.call('POST', '/v1/chat/completions', {
    model: 'a',
    messages: [{ role: 'user', content: 'hi' }],
  })
  expect(asked.status).toBe(503)
  await waitUntil('its last lines', () => folder.stored().servers[0]?.last_lines.length !== 0)
  const lines = folder.stored().servers[0]?.last_lines.join('\n') ?? ''
  expect(lines).toContain('started with')
  expectStruck('the last lines', lines)
  expect(lines).not.toContain('4711')
  await own.remove()
  folder.remove()
})
