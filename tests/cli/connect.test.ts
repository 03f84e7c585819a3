import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { example, filled, guides } from '../../src/guides/pages.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine, root } from './command-line.ts'

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['coder'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_GATEWAY_KEY: customer.key }))

test('§28: connect alone lists the clients, each a page of the documents', async () => {
  const { clients } = await cli.json<{ clients: { client: string; title: string }[] }>('connect')
  const files = readdirSync(join(root, 'docs/integrations')).map((file) => file.replace('.md', ''))
  expect(clients.map(({ client }) => client).sort()).toEqual(files.sort())
  for (const { title } of clients) expect(title).toMatch(/^[A-Za-zn]/)
  expect((await cli.run(['connect'])).out).toContain('claude-code')
})

test('§28: connect CLIENT prints what to paste, with the address, the key and a model of the gateway', async () => {
  const { code, out, err } = await cli.run(['connect', 'claude-code'])
  expect([code, err]).toEqual([0, ''])
  expect(out).toContain(`export ANTHROPIC_BASE_URL=${gateway.url}\n`)
  expect(out).toContain(`export ANTHROPIC_AUTH_TOKEN=${customer.key} `)
  expect(out).toContain('export ANTHROPIC_MODEL=coder ')
  expect(out).not.toContain(example.baseUrl)
  const chosen = await cli.run(['connect', 'claude-code', '--model', 'another'])
  expect(chosen.out).toContain('export ANTHROPIC_MODEL=another ')
})

test('a program that reads its key from the environment is given the line for it', async () => {
  for (const client of ['openai', 'langchain', 'litellm']) {
    expect((await cli.run(['connect', client])).out).toContain(`export KEY=${customer.key}\n`)
  }
})

test('without a key, or without a gateway, the page stands as it is, and says where a key comes from', async () => {
  const away = { SVC_BASE_URL: 'http://127.0.0.1:9', SVC_GATEWAY_KEY: '' }
  const { code, out, err } = await cli.run(['connect', 'codex'], { env: away })
  expect(code).toBe(0)
  expect(out).toContain('base_url = "http://127.0.0.1:9/v1"')
  expect(out).toContain('export PENSTOCK_KEY=$KEY')
  expect(err).toContain('keys create')
})

test('§28: a program in a container is given the address by which a container reaches the gateway', async () => {
  const { out } = await cli.run(['connect', 'open-webui'])
  const { port } = new URL(gateway.url)
  expect(out).toContain(`OPENAI_API_BASE_URLS=http://host.docker.internal:${port}/v1 `)
  expect(out).toContain('--add-host=host.docker.internal:host-gateway')
  expect(out).toContain('SVC_HOST=0.0.0.0')
  expect(out).not.toContain(gateway.url)
  const n8n = (await cli.run(['connect', 'n8n'])).out
  expect(n8n).toContain(`| Base URL | \`${gateway.url}/v1\` |`)
  expect(n8n).toContain(`http://host.docker.internal:${port}/v1`)
  // What another computer can reach, a container can reach as well.
  const env = { SVC_BASE_URL: 'https://ai.example' }
  const far = (await cli.run(['connect', 'open-webui', '--model', 'coder'], { env })).out
  expect(far).toContain('OPENAI_API_BASE_URLS=https://ai.example/v1 ')
})

test('§28: the gateway answers a caller that names it so', async () => {
  const headers = { host: `host.docker.internal:${new URL(gateway.url).port}`, authorization: `Bearer ${customer.key}` }
  expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(200)
})

test('another client is refused with the list of those that are known', async () => {
  const { code, err } = await cli.run(['connect', 'nobody'])
  expect(code).not.toBe(0)
  expect(err).toContain('claude-code')
})

describe.each(guides.map((guide) => [guide.client, guide] as const))('the page of %s', (client, guide) => {
  test('is short, has a title and the address, and nothing of the example is left once it is filled in', () => {
    const file = readFileSync(join(root, `docs/integrations/${client}.md`), 'utf8')
    expect(guide.text).toBe(file)
    expect(file.trimEnd().split('\n').length).toBeLessThanOrEqual(30)
    expect(guide.title.length).toBeGreaterThan(1)
    const page = filled(guide, { baseUrl: 'https://there.example', key: 'gk_$&', model: 'coder' })
    for (const left of Object.values(example)) expect(page).not.toContain(left)
    if (!file.includes('SVC_OLLAMA_LISTEN')) expect(page).toContain('https://there.example')
    expect(page).toContain('gk_$&')
    // Open WebUI lists the models by itself.
    if (client !== 'open-webui') expect(page).toContain('coder')
  })
})
