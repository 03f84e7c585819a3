import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { hasBrowser, launchBrowser, openConsole } from '../../support/console/console.ts'
import { type SealedPool, startSealedPool } from '../../support/pools/sealed-pool.ts'

const root = resolve(import.meta.dir, '../../..')
const text = 'fake-0 fake-1 fake-2 '
let pool: SealedPool
let folder: string
let page: ReturnType<typeof Bun.serve>
let env: Record<string, string>

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'penstock-programs-'))
  for (const [source, file] of [
    ['src/client/private-jobs.ts', 'client.js'],
    ['node_modules/ehbp/dist/esm/index.js', 'ehbp.js'],
  ] as const) {
    const build = [process.execPath, 'build', source, '--target', 'browser', '--outfile', join(folder, file)]
    expect(await Bun.spawn(build, { cwd: root, stdout: 'ignore' }).exited).toBe(0)
  }
  page = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) =>
      request.url.endsWith('.js')
        ? new Response(Bun.file(join(folder, basename(request.url))))
        : new Response('<!doctype html><title>page</title>', { headers: { 'content-type': 'text/html' } }),
  })
  pool = await startSealedPool({
    answer: { chunks: 3 },
    env: { SVC_CORS_ORIGINS: `http://127.0.0.1:${page.port}` },
  })
  env = {
    PATH: process.env.PATH ?? '',
    GATEWAY: pool.second.url,
    KEY: pool.customer.key,
    NODE_ID: pool.tunnelled.nodeId,
    TRUST: [pool.tunnelled.node.fingerprint, pool.direct.node.fingerprint].join(),
  }
})
afterAll(async () => {
  await pool.stop()
  await page.stop(true)
  rmSync(folder, { recursive: true })
})

async function run(program: string): Promise<string> {
  const file = join(root, `.sealed-${crypto.randomUUID()}.mjs`)
  await Bun.write(file, program)
  try {
    const child = Bun.spawn(['node', file], { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] })
    const out = await new Response(child.stdout).text()
    expect(await child.exited).toBe(0)
    return out
  } finally {
    rmSync(file)
  }
}

const body = (stream: boolean) => JSON.stringify({ model: 'm-1', stream, messages: [{ role: 'user', content: 'hi' }] })

test('§38: the published client under Node: whole and streamed, behind a tunnel and another gateway', async () => {
  const out = await run(`
    import { Identity, Transport } from 'ehbp'
    const { GATEWAY, KEY, NODE_ID } = process.env
    const base = GATEWAY + '/v1/sealed/nodes/' + NODE_ID
    const headers = { authorization: 'Bearer ' + KEY, 'x-svc-model': 'm-1', 'content-type': 'application/json' }
    const config = await (await fetch(base + '/.well-known/hpke-keys', { headers })).arrayBuffer()
    const client = new Transport(await Identity.unmarshalPublicConfig(new Uint8Array(config)), new URL(GATEWAY).host)
    const whole = await client.post(base + '/chat/completions', ${JSON.stringify(body(false))}, { headers })
    console.log((await whole.json()).choices[0].message.content)
    const streamed = await client.post(base + '/chat/completions', ${JSON.stringify(body(true))}, { headers })
    console.log((await streamed.text()).endsWith('data: [DONE]\\n\\n'))
  `)
  expect(out).toBe(`${text}\ntrue\n`)
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
  const browser = await launchBrowser()
  try {
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
  } finally {
    await browser.close()
  }
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

test.skipIf(!hasBrowser)('§38: Try it seals in the browser, and says which fingerprint is none', async () => {
  const browser = await launchBrowser()
  try {
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
  } finally {
    await browser.close()
  }
})
