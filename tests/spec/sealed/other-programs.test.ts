import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { hasBrowser, launchBrowser, openConsole } from '../../support/console/console.ts'
import { ageSealedKeys } from '../../support/nodes/aged-keys.ts'
import { enrollmentToken, startAgent } from '../../support/nodes/agents.ts'
import { patientTimes, startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitFor, waitUntil } from '../../support/run/wait-until.ts'

const root = resolve(import.meta.dir, '../../..')
const text = 'fake-0 fake-1 fake-2 '

afterAll(async () => {
  await page.stop(true)
  rmSync(folder, { recursive: true })
})
const folder = mkdtempSync(join(tmpdir(), 'penstock-programs-'))
for (const [source, file] of [
  ['src/client/private-jobs.ts', 'client.js'],
  ['node_modules/ehbp/dist/esm/index.js', 'ehbp.js'],
] as const) {
  const build = [process.execPath, 'build', source, '--target', 'browser', '--outfile', join(folder, file)]
  expect(await Bun.spawn(build, { cwd: root, stdout: 'ignore' }).exited).toBe(0)
}
const page = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: (request) =>
    request.url.endsWith('.js')
      ? new Response(Bun.file(join(folder, basename(request.url))))
      : new Response('<!doctype html><title>page</title>', { headers: { 'content-type': 'text/html' } }),
})
const pool = await fixture(
  startSealedPool({
    answer: { chunks: 3 },
    env: { SVC_CORS_ORIGINS: `http://127.0.0.1:${page.port}` },
  }),
)
const env = {
  PATH: process.env.PATH ?? '',
  GATEWAY: pool.second.url,
  KEY: pool.customer.key,
  NODE_ID: pool.tunnelled.nodeId,
  OTHER_ID: pool.direct.nodeId,
  TRUST: [pool.tunnelled.node.fingerprint, pool.direct.node.fingerprint].join(),
}

/** Resolves with what it has printed. `between`: what happens once it has printed that, before it gets a line to read. */
async function run(
  program: string,
  more: Readonly<Record<string, string>> = {},
  between?: { readonly after: string; readonly meanwhile: () => Promise<void> },
): Promise<string> {
  const file = join(root, `.sealed-${crypto.randomUUID()}.mjs`)
  await Bun.write(file, program)
  try {
    const child = Bun.spawn(['node', file], { cwd: root, env: { ...env, ...more }, stdio: ['pipe', 'pipe', 'inherit'] })
    let out = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      out += chunk
      if (out !== between?.after) continue
      await between.meanwhile()
      child.stdin.write('go on\n')
      child.stdin.flush()
    }
    expect(await child.exited).toBe(0)
    return out
  } finally {
    rmSync(file)
  }
}

const body = (stream: boolean, model = 'm-1') =>
  JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'hi' }] })

/** What each program says first: a client for a node, by the published package. */
const published = `
    import { Identity, Transport } from 'ehbp'
    const { GATEWAY, KEY, NODE_ID, OTHER_ID, MODEL = 'm-1' } = process.env
    const headers = { authorization: 'Bearer ' + KEY, 'x-svc-model': MODEL, 'content-type': 'application/json' }
    const base = (id) => GATEWAY + '/v1/sealed/nodes/' + id
    const client = async (id) => {
      const config = await (await fetch(base(id) + '/.well-known/hpke-keys', { headers })).arrayBuffer()
      return new Transport(await Identity.unmarshalPublicConfig(new Uint8Array(config)), new URL(GATEWAY).host)
    }
    const url = base(NODE_ID) + '/chat/completions'
    const body = (stream) => JSON.stringify({ model: MODEL, stream, messages: [{ role: 'user', content: 'hi' }] })
    const outcome = (asked) => asked.then(({ status }) => status, ({ name }) => name)
`

test('§38: the published client under Node, behind a tunnel and another gateway: whole, streamed, with another node’s key', async () => {
  const out = await run(`${published}
    const own = await client(NODE_ID)
    console.log((await (await own.post(url, body(false), { headers })).json()).choices[0].message.content)
    console.log((await (await own.post(url, body(true), { headers })).text()).endsWith('data: [DONE]\\n\\n'))
    console.log(await outcome((await client(OTHER_ID)).post(url, body(false), { headers })))
  `)
  expect(out).toBe(`${text}\ntrue\nKeyConfigMismatchError\n`)
})

test('§38: a stream that the published client leaves under Node ends the work of the server', async () => {
  const [server] = pool.servers
  server.setFaults({ kind: 'stall', afterChunks: 2 })
  const aborted = server.nextAbort()
  try {
    const out = await run(`${published}
      const stream = await (await client(NODE_ID)).post(url, body(true), { headers })
      const reader = stream.body.getReader()
      console.log((await reader.read()).done)
      await reader.cancel()
    `)
    expect([out, (await aborted).outcome]).toEqual(['false\n', 'aborted'])
  } finally {
    server.clearFaults()
  }
})

/** A node of its own, whose key can be replaced. */
async function startRotating() {
  const { gateway, customer } = pool
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const server = startFakeNode({ models: ['m-r'], answer: { chunks: 3 } })
  let agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [server.url], runtimeTimes: patientTimes })
  const { nodeId } = agent
  const config = async () => {
    const headers = { authorization: `Bearer ${customer.key}`, 'x-svc-model': 'm-r' }
    const response = await fetch(`${gateway.url}/v1/sealed/nodes/${nodeId}/.well-known/hpke-keys`, { headers })
    return response.ok ? Buffer.from(await response.arrayBuffer()).toString('hex') : ''
  }
  const chat = () => gateway.chat(customer.key, { model: 'm-r', messages: [{ role: 'user', content: 'hi' }] })
  const before = await waitFor('its key', async () => (await config()) || null)
  return {
    nodeId,
    rotate: async () => {
      await agent.node.stop()
      ageSealedKeys(agent.node.folder, true)
      agent = await agent.restart()
      await waitUntil('the new key is offered', async () => !['', before].includes(await config()))
      // It is known by the first word of the agent, which may not have heard of its server yet.
      await waitUntil('its server is there again', async () => (await chat()).status === 200)
    },
    stop: async () => {
      await agent.remove()
      server.stop()
    },
  }
}

test('§38: the published client learns under Node that the key was replaced, and the new one serves', async () => {
  await using node = await scoped(startRotating())
  const program = `${published}
      const own = await client(NODE_ID)
      console.log(await outcome(own.post(url, body(false), { headers })))
      for await (const _ of process.stdin) break
      console.log(await outcome(own.post(url, body(false), { headers })))
      console.log(await outcome((await client(NODE_ID)).post(url, body(false), { headers })))
      process.exit(0)
    `
  const more = { GATEWAY: pool.gateway.url, NODE_ID: node.nodeId, MODEL: 'm-r' }
  const out = await run(program, more, { after: '200\n', meanwhile: node.rotate })
  expect(out).toBe('200\nKeyConfigMismatchError\n200\n')
})

test('§38: sealedFetch under Node, with the openai package', async () => {
  const out = await run(`
    import OpenAI from 'openai'
    import { sealedFetch } from ${JSON.stringify(join(folder, 'client.js'))}
    const { GATEWAY, KEY, TRUST } = process.env
    const fetch = sealedFetch({ gateway: GATEWAY, trust: TRUST.split(',') })
    const client = new OpenAI({ baseURL: GATEWAY + '/v1', apiKey: KEY, fetch })
    const messages = [{ role: 'user', content: 'hi' }]
    let text = ''
    for await (const chunk of await client.chat.completions.create({ model: 'm-1', messages, stream: true }))
      text += chunk.choices[0]?.delta.content ?? ''
    console.log(text)
  `)
  expect(out).toBe(`${text}\n`)
})

test.skipIf(!hasBrowser)('§38: sealedFetch in a browser, on a page that the operator has named', async () => {
  await using browser = await scoped(launchBrowser())
  const tab = await browser.newPage()
  await tab.goto(`http://127.0.0.1:${page.port}/`)
  const answer = await tab.evaluate(
    async ({ gateway, key, trust, asked }) => {
      const client = (await import('/client.js' as string)) as {
        sealedFetch(options: object): (url: string, init: RequestInit) => Promise<Response>
      }
      const seal = client.sealedFetch({ gateway, trust })
      const init = { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: asked }
      return (await seal(`${gateway}/v1/chat/completions`, init)).text()
    },
    { gateway: pool.second.url, key: pool.customer.key, trust: String(env.TRUST).split(','), asked: body(true) },
  )
  expect(answer.endsWith('\n\n')).toBe(true)
  expect(answer).toContain('data: [DONE]')
})

test.skipIf(!hasBrowser)(
  '§38: the published client in a browser: whole, streamed, left, and with another node’s key',
  async () => {
    const browser = await launchBrowser()
    const [server] = pool.servers
    try {
      const tab = await browser.newPage()
      await tab.goto(`http://127.0.0.1:${page.port}/`)
      const given = {
        ...{ gateway: pool.second.url, key: pool.customer.key },
        ...{ nodeId: pool.tunnelled.nodeId, other: pool.direct.nodeId },
        ...{ whole: body(false), streamed: body(true) },
      }
      type Given = typeof given & { readonly leaves: boolean }
      const run = (leaves: boolean) =>
        tab.evaluate(
          async ({ gateway, key, nodeId, other, whole, streamed, leaves }: Given) => {
            const { Identity, Transport } = (await import('/ehbp.js' as string)) as typeof import('ehbp')
            const base = (id: string) => `${gateway}/v1/sealed/nodes/${id}`
            const headers = { authorization: `Bearer ${key}`, 'x-svc-model': 'm-1', 'content-type': 'application/json' }
            const client = async (id: string) => {
              const config = await (await fetch(`${base(id)}/.well-known/hpke-keys`, { headers })).arrayBuffer()
              const identity = await Identity.unmarshalPublicConfig(new Uint8Array(config))
              return new Transport(identity, new URL(gateway).host)
            }
            const url = `${base(nodeId)}/chat/completions`
            const own = await client(nodeId)
            const stream = await own.post(url, streamed, { headers })
            if (leaves) {
              const reader = stream.body?.getReader()
              await reader?.read()
              await reader?.cancel()
              return null
            }
            const text = await stream.text()
            const answer = (await (await own.post(url, whole, { headers })).json()) as {
              choices: { message: { content: string } }[]
            }
            const wrong = await (await client(other)).post(url, whole, { headers }).catch((error: Error) => error.name)
            return [answer.choices[0]?.message.content, text.endsWith('data: [DONE]\n\n'), wrong]
          },
          { ...given, leaves },
        )
      expect(await run(false)).toEqual([text, true, 'KeyConfigMismatchError'])
      server.setFaults({ kind: 'stall', afterChunks: 2 })
      const aborted = server.nextAbort()
      await run(true)
      expect((await aborted).outcome).toBe('aborted')
    } finally {
      server.clearFaults()
      await browser.close()
    }
  },
)

test.skipIf(!hasBrowser)(
  '§38: the published client learns in a browser that the key was replaced, and the new one serves',
  async () => {
    const [node, browser] = await Promise.all([startRotating(), launchBrowser()])
    try {
      const tab = await browser.newPage()
      await tab.goto(`http://127.0.0.1:${page.port}/`)
      /** `anew`: with the key that the node has now, else with the one of the first call. */
      const ask = (anew: boolean) =>
        tab.evaluate(
          async ({ url, key, asked, anew }) => {
            const { Identity, Transport } = (await import('/ehbp.js' as string)) as typeof import('ehbp')
            const kept = window as unknown as { client?: InstanceType<typeof Transport> }
            const headers = { authorization: `Bearer ${key}`, 'x-svc-model': 'm-r', 'content-type': 'application/json' }
            if (anew) {
              const config = await (await fetch(`${url}/.well-known/hpke-keys`, { headers })).arrayBuffer()
              const identity = await Identity.unmarshalPublicConfig(new Uint8Array(config))
              kept.client = new Transport(identity, new URL(url).host)
            }
            const asking = kept.client?.post(`${url}/chat/completions`, asked, { headers })
            return asking?.then(
              ({ status }) => status,
              (error: Error) => error.name,
            )
          },
          {
            url: `${pool.gateway.url}/v1/sealed/nodes/${node.nodeId}`,
            key: pool.customer.key,
            asked: body(false, 'm-r'),
            anew,
          },
        )
      expect(await ask(true)).toBe(200)
      await node.rotate()
      expect(await ask(false)).toBe('KeyConfigMismatchError')
      expect(await ask(true)).toBe(200)
    } finally {
      await browser.close()
      await node.stop()
    }
  },
)

test.skipIf(!hasBrowser)('§38: Try it seals in the browser, and says which fingerprint is none', async () => {
  await using browser = await scoped(launchBrowser())
  const console = await openConsole(browser, pool.gateway.url)
  const { page: tab } = console
  const sent: string[] = []
  tab.on('request', (request) => sent.push(`${new URL(request.url()).pathname} ${request.postData() ?? ''}`))
  await console.signIn(pool.gateway.tokens.viewer)
  await console.show('Try it')
  await tab.getByLabel('Gateway key').fill(pool.customer.key)
  await tab.getByLabel('Model', { exact: true }).fill('m-1')
  const pin = tab.getByLabel('Seal for the node')
  await pin.fill('SHA256:short')
  await tab.getByText('A fingerprint is SHA256: and 43 characters').waitFor()
  await pin.fill(pool.tunnelled.node.fingerprint)
  await tab.getByLabel('Message').fill('a word that only the node reads')
  await tab.getByRole('button', { name: 'Send' }).click()
  await tab.locator('.message.assistant', { hasText: text.trim() }).waitFor()
  await tab.getByRole('region', { name: 'Trace of the answer' }).waitFor()
  const chats = sent.filter((line) => line.includes('chat/completions'))
  expect(chats).toHaveLength(1)
  expect(chats[0]).toStartWith(`/v1/sealed/nodes/${pool.tunnelled.nodeId}/chat/completions`)
  expect(sent.join('\n')).not.toContain('only the node reads')
  await pin.fill(`SHA256:${'A'.repeat(43)}`)
  await tab.getByLabel('Message').fill('again')
  await tab.keyboard.press('Enter')
  await tab.getByText('node_not_pinned').waitFor()
  expect(console.faults).toEqual([])
  await console.close()
})
