import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import type { Explanation } from '../../src/protocol/wire/admin/explanation.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { type CommandLine, commandLine } from './command-line.ts'

let gateway: TestGateway
let node: FakeNode
let cli: CommandLine
let customerId: string
let nodeId: string

/** The environment an operator has: their gateway in a credentials file of their home folder. */
beforeAll(async () => {
  gateway = await startTestGateway()
  node = startFakeNode({ models: ['llama', 'qwen'], answer: { chunks: 5 } })
  cli = commandLine()
  const made = await gateway.customer()
  customerId = made.customerId
  writeFileSync(
    join(cli.home, '.config/penstock/credentials.json'),
    JSON.stringify({
      base_url: gateway.url,
      admin_token: gateway.tokens.admin,
      gateway_key: made.key,
      customer_id: customerId,
    }),
  )
  nodeId = (await cli.json<Node>('nodes', 'add', `${node.url}/v1`, '--name', 'box', '--reason', 'first')).node_id
  await waitFor('the node', async () => (await cli.json<Node>('nodes', 'show', nodeId)).state === 'ready')
})

afterAll(async () => {
  cli?.close()
  node?.stop()
  await gateway?.stop()
})

test('status: 0 with nodes by state, models and requests in flight', async () => {
  const { code, out } = await cli.run(['status'])
  expect(code).toBe(0)
  expect(out).toMatch(/State +ready/)
  expect(out).toMatch(/Nodes +1 ready/)
  expect(out).toMatch(/llama +1 +1/)
  expect(await cli.json('status')).toMatchObject({
    base_url: gateway.url,
    state: 'ready',
    interface_version: '1',
    command_line_version: version,
    nodes: { ready: 1 },
    in_flight: 0,
    models: [
      { id: 'llama', nodes: 1, nodes_ready: 1 },
      { id: 'qwen', nodes: 1, nodes_ready: 1 },
    ],
  })
})

test('chat: the answer on standard output alone, rate and times on standard error', async () => {
  const { code, out, err } = await cli.run([
    'chat',
    'llama',
    'hello',
    'there',
    '--system',
    'be kind',
    '--max-tokens',
    '3',
  ])
  expect([code, out]).toEqual([0, 'fake-0 fake-1 fake-2 \n'])
  expect(err).toMatch(
    /^\[3 tokens, .*first after \d+\.\d\d s, \d+\.\d\d s in all, ended by length, .*req_[0-9A-Z]{26}\]\n$/,
  )
  const sent = node.requests.at(-1)?.body as { messages: unknown; max_tokens: number }
  expect(sent.max_tokens).toBe(3)
  expect(sent.messages).toEqual([
    { role: 'system', content: 'be kind' },
    { role: 'user', content: 'hello there' },
  ])
})

test('chat: a piped prompt, --json, --no-stats, --temperature and --node', async () => {
  const ended = await cli.run(['chat', 'llama', '--json', '--temperature', '0.5', '--node', nodeId], {
    stdin: 'from a pipe\n',
  })
  expect([ended.code, ended.err]).toEqual([0, ''])
  expect(JSON.parse(ended.out)).toMatchObject({
    model: 'llama',
    content: 'fake-0 fake-1 fake-2 fake-3 fake-4 ',
    finish_reason: 'stop',
    usage: { completion_tokens: 5 },
    stopped: false,
    svc: { receipt_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
  })
  const sent = node.requests.at(-1)?.body as { messages: unknown; temperature: number }
  expect(sent).toMatchObject({ temperature: 0.5, messages: [{ role: 'user', content: 'from a pipe' }] })
  expect((await cli.run(['chat', 'llama', 'x', '--no-stats'])).err).toBe('')
  expect((await cli.run(['chat', 'llama', '-', '--no-stats'], { stdin: 'x' })).code).toBe(0)
})

test('chat: a refusal has title, code and request id; the exit code is 1', async () => {
  const absent = await cli.run(['chat', 'absent', 'x'])
  expect(absent.code).toBe(1)
  expect(absent.err).toMatch(
    /^penstock: No model has this name\. GET \/v1\/models lists what you can use\. \(model_not_found\)\n(.*\n)* {2}Request req_[0-9A-Z]{26}\n$/,
  )
  const pinned = await cli.run(['chat', 'llama', 'x', '--node', 'node_other'])
  expect(pinned.err).toContain('(node_pin_forbidden)')
})

test('chat: a stream that breaks is an error, with what came before', async () => {
  node.setFaults({ kind: 'dropMidStream', afterChunks: 2, times: 1 })
  const { code, out, err } = await cli.run(['chat', 'llama', 'x'])
  node.clearFaults()
  expect(code).toBe(1)
  expect(out).toStartWith('fake-0 ')
  expect(err).toContain('(node_lost)')
})

test('chat: Ctrl-C stops the answer and the node', async () => {
  node.setAnswer({ chunks: 1_000, intervalMs: 10 })
  const child = cli.start(['chat', 'llama', 'x'])
  const aborted = node.nextAbort()
  await firstMatch(child.stdout, /fake-1 /)
  child.kill('SIGINT')
  const stderr = new Response(child.stderr).text()
  expect(await child.exited).toBe(130)
  expect(await stderr).toMatch(/^\[stopped, /)
  await aborted
  node.setAnswer({ chunks: 5, intervalMs: 0 })
})

test('chat: a conversation in a terminal, an answer of which is stopped', async () => {
  node.setAnswer({ chunks: 1_000, intervalMs: 10 })
  const talk = cli.inTerminal(['chat', 'llama'])
  const prompts = () => talk.text().split('> ').length - 1
  await waitFor('the prompt', () => prompts() === 1)
  const aborted = node.nextAbort()
  talk.type('first\r')
  await waitFor('the answer', () => talk.text().includes('fake-3 '))
  talk.type('\u0003')
  await waitFor('its end', () => talk.text().includes('[stopped, ') && prompts() === 2)
  await aborted
  node.setAnswer({ chunks: 2, intervalMs: 0 })
  const next = node.nextRequest()
  talk.type('second\r')
  const { messages } = (await next).body as { messages: { role: string; content: string }[] }
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
  expect(messages[2]?.content).toBe('second')
  await waitFor('the second answer', () => prompts() === 3)
  talk.type('\u0004')
  expect(await talk.exited).toBe(0)
  node.setAnswer({ chunks: 5 })
})

test('models: list, set, alias and remove', async () => {
  await cli.json('models', 'alias', 'llama', 'llama-3', 'big')
  const entry = await cli.json('models', 'set', 'llama', '--context-length', '4096', '--name', 'Llama')
  expect(entry).toMatchObject({ id: 'llama', aliases: ['llama-3', 'big'], context_length: 4096, name: 'Llama' })
  expect(await cli.json('models', 'alias', 'llama', 'big', '--remove')).toMatchObject({
    aliases: ['llama-3'],
    name: 'Llama',
  })
  const prices = ['--usd-price', 'prompt=0.0000002', '--completion-price-wei', '7']
  await cli.json('models', 'set', 'llama', ...prices)
  expect(await cli.json('models', 'set', 'llama', '--usd-price', 'completion=0.000001')).toMatchObject({
    usd_prices: { prompt: '0.0000002', completion: '0.000001' },
    completion_token_price_wei: '7',
  })
  expect((await cli.run(['models', 'set', 'llama', '--usd-price', 'word=1'])).code).toBe(2)
  expect((await cli.run(['models', 'alias', 'llama', 'big', '--remove'])).code).toBe(2)
  expect((await cli.run(['models', 'list'])).out).toMatch(/llama +1 +1 +yes +llama-3 +4096/)
  // No entry names it: its node says how long its context is.
  expect((await cli.run(['models', 'list'])).out).toMatch(/qwen +1 +1 +no +[–-]? *8192/)
  expect((await cli.run(['chat', 'llama-3', 'x'])).code).toBe(0)
  expect(await cli.json('models', 'remove', 'llama')).toEqual({ id: 'llama', removed: true })
  expect((await cli.run(['chat', 'llama-3', 'x'])).err).toContain('(model_not_found)')
  // Without an admin token: the list of the key.
  const key = commandLine({ SVC_BASE_URL: gateway.url, SVC_GATEWAY_KEY: (await gateway.customer()).key })
  expect(await key.json('models', 'list')).toEqual({ object: 'list', data: [] })
  key.close()
})

test('nodes: set, drain, resume, list, and removal of another', async () => {
  expect(await cli.json('nodes', 'set', nodeId, '--node-class', 'big', '--api-key', 'secret')).toMatchObject({
    node_class: 'big',
    has_api_key: true,
  })
  expect(await cli.json('nodes', 'set', nodeId, '--api-key', 'none')).toMatchObject({ has_api_key: false })
  const payee = `0x${'aB'.repeat(20)}`
  expect(await cli.json('nodes', 'set', nodeId, '--payout-address', payee)).toMatchObject({ payout_address: payee })
  expect((await cli.run(['nodes', 'show', nodeId])).out).toMatch(/Payout address +0xaB/)
  expect(await cli.json('nodes', 'set', nodeId, '--payout-address', 'none')).toMatchObject({ payout_address: null })
  expect((await cli.run(['nodes', 'set', nodeId])).code).toBe(2)
  expect(await cli.json('nodes', 'drain', nodeId, '--reason', 'new fan')).toMatchObject({ admin_state: 'draining' })
  expect(await cli.json('nodes', 'resume', nodeId)).toMatchObject({ admin_state: 'active' })
  const { out } = await cli.run(['nodes', 'list'])
  expect(out).toMatch(new RegExp(`${nodeId} +box +(ready|live) `))
  const count = async () => (await cli.json<{ count: number }>('nodes', 'list')).count
  const before = await count()
  const looked = await cli.run(['nodes', 'add', '127.0.0.1:9', '--customer', customerId])
  expect([looked.code, looked.out, await count()]).toEqual([3, '', before])
  expect(looked.err).toContain('Nothing listens there.')
  expect(looked.err).toContain('--anyway')
  const added = await cli.run(['nodes', 'add', '127.0.0.1:9', '--customer', customerId, '--anyway', '--json'])
  const other = JSON.parse(added.out) as Node
  expect([added.code, other.url]).toEqual([3, 'http://127.0.0.1:9'])
  expect(added.err).toContain('Nothing listens there.')
  expect(await cli.json('nodes', 'revoke', other.node_id)).toMatchObject({ state: 'revoked' })
  const dead = await cli.run(['nodes', 'set', other.node_id, '--name', 'x'])
  expect(dead.err).toContain('(invalid_state)')
  expect(await cli.json('nodes', 'remove', other.node_id, '--reason', 'gone')).toMatchObject({ removed: true })
})

test('keys: one that goes beyond its account is said to, with the command that allows it; the command does', async () => {
  const create = (name: string, ...options: string[]) => cli.run(['keys', 'create', name, ...options])
  const far = ['--min-privacy-class', 'public', '--allow-external', 'yes']
  const made = await create('far', ...far)
  expect(made.out).toContain('The account allows less than this key')
  const said = /^ {2}\.\/penstock (customers update .*)$/m.exec(made.out)?.[1]?.split(' ') ?? []
  expect((await create('near')).out).not.toContain('The account allows less')
  expect((await cli.json<{ gateway_policy: object }>(...said)).gateway_policy).toMatchObject({
    min_privacy_class: 'public',
    allow_external: true,
  })
  expect((await create('farther', ...far)).out).not.toContain('The account allows less')
  const { keys } = await cli.json<{ keys: { key_id: string; name: string }[] }>('keys', 'list')
  for (const { key_id: id, name } of keys.filter((key) => /^(far|near)/.test(key.name))) {
    expect([name, (await cli.run(['keys', 'revoke', id, '--yes'])).code]).toEqual([name, 0])
  }
  await cli.json('customers', 'update', customerId, '--policy', 'none')
})

test('keys: the key is shown once, works, is rotated and revoked', async () => {
  const made = await cli.run([
    'keys',
    'create',
    'ci',
    '--allow-model',
    'llama*',
    '--expires-at',
    '2999-01-01T00:00:00Z',
  ])
  expect(made.code).toBe(0)
  expect(made.out).toContain('It is shown only this once')
  const key = /svc_gateway_\w{49}/.exec(made.out)?.[0] ?? ''
  const keyId = /key_\w{26}/.exec(made.out)?.[0] ?? ''
  const env = { SVC_GATEWAY_KEY: key }
  expect((await cli.run(['chat', 'llama', 'x'], { env })).code).toBe(0)
  expect((await cli.run(['chat', 'qwen', 'x'], { env })).err).toContain('(model_not_allowed)')
  const { out: listed } = await cli.run(['keys', 'list'])
  expect(listed).toMatch(new RegExp(`${keyId} +ci +${key.slice(0, 16)} +active +own`))
  expect(listed).not.toContain(key)
  expect(
    await cli.json<object>('keys', 'set', keyId, '--name', 'ci 2', '--expires-at', '2998-01-01T00:00:00Z'),
  ).toMatchObject({
    name: 'ci 2',
    model_policy: { allowed_models: ['llama*'] },
    node_scope: null,
    expires_at: '2998-01-01T00:00:00.000Z',
  })
  const rotated = await cli.json<{ key_id: string; gateway_key: string }>(
    'keys',
    'rotate',
    keyId,
    '--keep-seconds',
    '60',
  )
  expect((await cli.run(['chat', 'llama', 'x'], { env })).code).toBe(0)
  await cli.json('keys', 'revoke', keyId, '--reason', 'old')
  expect((await cli.run(['chat', 'llama', 'x'], { env })).err).toContain('(invalid_api_key)')
  expect((await cli.run(['chat', 'llama', 'x'], { env: { SVC_GATEWAY_KEY: rotated.gateway_key } })).code).toBe(0)
  const wide = await cli.run(['keys', 'revoke', rotated.key_id, '--reason', 'größer'])
  expect([wide.code, wide.err.includes('ASCII')]).toEqual([1, true])
})

test('customers: create, list, show, update one field of a policy, rotate secrets', async () => {
  const made = await cli.json<{ customer_id: string; customer_token: string; webhook_secret: string }>(
    ...['customers', 'create', 'Ann & Co', '--daily-token-quota', '1000', '--min-privacy-class', 'trusted'],
  )
  expect(made).toMatchObject({ gateway_policy: { daily_token_quota: 1000, min_privacy_class: 'trusted' } })
  const id = made.customer_id
  const limited = await cli.json('customers', 'update', id, '--rate-limit-rpm', '60', '--status', 'suspended')
  expect(limited).toMatchObject({
    account_status: 'suspended',
    gateway_policy: { daily_token_quota: 1000, min_privacy_class: 'trusted', rate_limit_rpm: 60 },
  })
  expect(await cli.json('customers', 'update', id, '--policy', 'none')).toMatchObject({ gateway_policy: null })
  const wrong = await cli.run(['customers', 'update', id, '--policy', '{"bogus":1}'])
  expect([wrong.code, /gateway_policy\.bogus/.test(wrong.err)]).toEqual([1, true])
  expect((await cli.run(['customers', 'show', id])).out).toMatch(/Name +Ann & Co/)
  expect((await cli.run(['customers', 'list', '--limit', '1'])).out.trim().split('\n')).toHaveLength(2)
  const token = await cli.json<{ customer_token: string }>('customers', 'token', id)
  expect(token.customer_token).toMatch(/^svc_customer_/)
  expect(token.customer_token).not.toBe(made.customer_token)
  const { out } = await cli.run(['customers', 'webhook-secret', id])
  expect(/whsec_\S+/.exec(out)?.[0]).not.toBe(made.webhook_secret)
  expect((await cli.run(['customers', 'show', 'absent'])).err).toContain('(customer_not_found)')
})

test('explain: why this node', async () => {
  const { request_id } = await cli.json<{ request_id: string }>('chat', 'qwen', 'x')
  const found = await cli.json<Explanation>('explain', request_id)
  expect(found.tries[0]?.routes[0]).toMatchObject({ node_id: nodeId, verdict: 'chosen', reason: 'only' })
  expect((await cli.run(['explain', request_id])).out).toMatch(new RegExp(`${nodeId} +\\w+ +chosen +only`))
  const [first, second, rest] = (await cli.run(['explain', request_id])).out.split(/(?<=\.) |\n/)
  expect([first, second, rest]).toEqual([
    expect.stringMatching(new RegExp(`^The request for qwen went to ${nodeId}`)),
    'No other node has the model.',
    '',
  ])
  expect((await cli.run(['explain', 'req_00000000000000000000000000'])).err).toContain('(request_not_found)')
})

test('a role that is too low is told as such', async () => {
  const env = { SVC_ADMIN_TOKEN: gateway.tokens.viewer }
  expect((await cli.run(['nodes', 'list'], { env })).code).toBe(0)
  expect((await cli.run(['keys', 'list'], { env })).err).toContain('(insufficient_role)')
})

test('serve: the gateway starts, says where, and SIGTERM ends it', async () => {
  const operator = commandLine({ ...gateway.env, SVC_SHUTDOWN_GRACE_MS: '0' })
  const child = operator.start(['serve', '--json'])
  const { base_url } = JSON.parse((await firstMatch(child.stdout, /^\{.*\}$/m))[0])
  expect((await operator.run(['status'], { env: { SVC_BASE_URL: base_url } })).code).toBe(0)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
  const faulty = await operator.run(['serve'], { env: { SVC_PORT: 'x', SVC_DISCOVER: 'x' } })
  expect(faulty.code).toBe(1)
  expect(faulty.err).toContain('SVC_PORT must be')
  expect(faulty.err).toContain('SVC_DISCOVER must be')
  operator.close()
})

test('nodes: a name works where an id does, and must be the name of one node', async () => {
  expect(await cli.json('nodes', 'show', 'box')).toMatchObject({ node_id: nodeId })
  expect(await cli.json('nodes', 'set', 'box', '--node-class', 'small')).toMatchObject({ node_class: 'small' })
  expect(await cli.json('nodes', 'drain', 'box')).toMatchObject({ node_id: nodeId, admin_state: 'draining' })
  expect(await cli.json('nodes', 'resume', 'box')).toMatchObject({ node_id: nodeId, admin_state: 'active' })
  const nobody = await cli.run(['nodes', 'show', 'nobody'])
  expect([nobody.code, nobody.err.includes('No node is called nobody')]).toEqual([1, true])
  const twin = startFakeNode({ models: ['llama'] })
  try {
    const { node_id } = await cli.json<Node>('nodes', 'add', twin.url, '--name', 'box')
    const two = await cli.run(['nodes', 'drain', 'box'])
    expect([two.code, two.err.includes('2 nodes are called box')]).toEqual([1, true])
    await cli.json('nodes', 'remove', node_id, '--yes')
  } finally {
    twin.stop()
  }
})

test('nodes add: the same server twice and the gateway itself are refused', async () => {
  const twice = await cli.run(['nodes', 'add', `${node.url}/v1/`])
  expect(twice.code).toBe(1)
  expect(twice.err).toContain('(node_exists)')
  expect(twice.err).toContain(nodeId)
  for (const url of [gateway.url, gateway.url.replace('127.0.0.1', 'localhost')]) {
    const itself = await cli.run(['nodes', 'add', url])
    expect([itself.code, itself.err.includes('the address of the gateway itself')]).toEqual([1, true])
  }
})
