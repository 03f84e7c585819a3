import { expect, test } from 'bun:test'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint, signingKey } from '../../src/protocol/signing/ed25519.ts'
import { type ResponseKeys, sealResponse } from '../../src/protocol/signing/envelope-sealing.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { jobCustomer, jobNode } from '../support/pools/job-pool.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))
const line = await fixture(commandLine())
mkdirSync(join(line.home, 'data'))
const credentials = {
  base_url: gateway.url,
  admin_token: gateway.tokens.admin,
  customer_id: customer.customerId,
  customer_token: customer.customerToken,
}
writeFileSync(join(line.home, 'data/credentials.json'), JSON.stringify(credentials))

const book = () => join(line.home, '.config/penstock/private-jobs.json')

test('§24: submit seals, follows and opens; the machine’s fingerprint is needed once', async () => {
  const unpinned = await line.run(['jobs', 'submit', node.nodeId, node.model, 'hello'])
  expect(unpinned.code).toBe(2)
  expect(unpinned.err).toContain('--fingerprint')
  const first = await line.run(['jobs', 'submit', node.nodeId, node.model, 'hello', '--fingerprint', node.fingerprint])
  expect([first.code, first.out]).toEqual([0, 'the secret answer\n'])
  expect(first.err).toContain('completed')
  expect(node.prompts.at(-1)).toBe('{"messages":[{"role":"user","content":"hello"}]}')
  expect(statSync(book()).mode & 0o777).toBe(0o600)
  const second = await line.run(['jobs', 'submit', node.nodeId, node.model, '-'], { stdin: 'piped\n' })
  expect([second.code, second.out]).toEqual([0, 'the secret answer\n'])
})

test('§24: a node without an agent is told as such, with and without a fingerprint', async () => {
  const plain = await gateway.ask('POST', '/v1/admin/nodes', {
    as: 'admin',
    json: {
      url: 'http://127.0.0.1:9/v1',
      customer_id: customer.customerId,
      visibility: 'private',
      node_class: 'gpu',
      privacy_class: 'private',
    },
  })
  const { node_id: nodeId } = (await plain.json()) as { node_id: string }
  for (const more of [[], ['--fingerprint', node.fingerprint]]) {
    const refused = await line.run(['jobs', 'submit', nodeId, node.model, 'hello', ...more])
    expect(refused.code).toBe(1)
    expect(refused.err).toContain('runs no agent')
  }
})

test('§24: an answer that is no gateway’s is called so, with the next step, and no fault of the program', async () => {
  const answers = new Map<string, unknown>()
  const asked: string[] = []
  const stranger = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      asked.push(request.method)
      const { pathname } = new URL(request.url)
      if (answers.has(request.method)) return Response.json(answers.get(request.method))
      const { method } = request
      const body = method === 'POST' ? await request.text() : null
      const headers = { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken }
      return fetch(gateway.url + pathname, {
        method,
        headers: { ...headers, 'content-type': 'application/json' },
        body,
      })
    },
  })
  const env = { SVC_BASE_URL: `http://127.0.0.1:${stranger.port}` }
  const submit = () =>
    line.run(['jobs', 'submit', node.nodeId, node.model, 'hello', '--fingerprint', node.fingerprint], { env })
  for (const [method, answer] of [
    ['GET', null],
    ['GET', { identity_public_key_ed25519: 'AA', keys: [null] }],
    ['POST', null],
    ['POST', {}],
    ['POST', [null]],
  ] as const) {
    answers.clear()
    answers.set(method, answer)
    const { code, out, err } = await submit()
    expect([code, out]).toEqual([1, ''])
    expect(err).not.toContain('bug')
    expect(err).toContain('is no gateway’s: HTTP 200')
    expect(err).toContain('SVC_BASE_URL')
    expect(asked).toContain(method)
  }
  await stranger.stop(true)
})

test('§24: submit without waiting, show later, save the answer', async () => {
  const made = await line.json('jobs', 'submit', node.nodeId, node.model, 'x', '--no-wait', '--id', 'mine')
  expect(made).toMatchObject({ job_id: 'mine', status: 'queued' })
  const file = join(line.home, 'answer.json')
  const shown = await line.run(['jobs', 'show', 'mine', '--wait', '--out', file])
  expect([shown.code, shown.out]).toEqual([0, 'the secret answer\n'])
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ object: 'chat.completion' })
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect((await line.run(['jobs', 'show', 'other'])).err).toContain('did not submit')
})

test('§24: it stops when the identity is another than the pinned one, before anything is sent', async () => {
  const sent = node.submits.length
  const other = fingerprint(signingKey(new Uint8Array(32).fill(5)).publicKey) ?? ''
  const stopped = await line.run(['jobs', 'submit', node.nodeId, node.model, 'x', '--fingerprint', other])
  expect(stopped.code).toBe(1)
  expect(stopped.err).toContain('does not match the fingerprint')
  expect(node.submits.length).toBe(sent)
  // The pin stays what it was.
  expect((await line.run(['jobs', 'submit', node.nodeId, node.model, 'x'])).code).toBe(0)
})

test('§24: a failed job ends with 1; operators list and cancel', async () => {
  node.turn({ kind: 'fail', code: 'invalid_payload' }, { kind: 'hold' })
  const failed = await line.run(['jobs', 'submit', node.nodeId, node.model, 'x'])
  expect(failed.code).toBe(1)
  expect(failed.out).toContain('failed: invalid_payload')
  const held = await line.json('jobs', 'submit', node.nodeId, node.model, 'x', '--no-wait')
  const cancelled = await line.json('jobs', 'cancel', String(held.command_id), '--yes', '--reason', 'test')
  expect(cancelled).toMatchObject({ status: 'cancelled' })
  node.release()
  const listed = await line.run(['jobs', 'list', '--status', 'cancelled'])
  expect(listed.out).toContain(String(held.command_id))
  expect(listed.out).not.toContain('the secret')
})

test('§24: a refusal says in words what is wrong; a gateway that is away is no fault of the program', async () => {
  const submit = ['jobs', 'submit', node.nodeId, node.model, 'x', '--fingerprint', node.fingerprint]
  const refused = await line.run([...submit, '--webhook', 'https://localhost/in'])
  expect(refused.code).toBe(1)
  expect(refused.err).toContain('(webhook_url_invalid)')
  expect(refused.err).toContain('webhook_url must name a public host')
  expect(refused.err).toMatch(/Request req_/)
  const told = await line.run([...submit, '--webhook', 'https://localhost/in', '--json'])
  expect(JSON.parse(told.err)).toMatchObject({ error: { status: 400, code: 'webhook_url_invalid' } })
  const away = await line.run(submit, { env: { SVC_BASE_URL: 'http://127.0.0.1:1' } })
  expect(away.code).toBe(1)
  expect(away.err).toContain('cannot be reached')
})

test('§11: show says how far the webhook has come; JSON has the names of the wire', async () => {
  const webhook = ['--webhook', 'https://hooks.example.invalid/in']
  const done = await line.json('jobs', 'submit', node.nodeId, node.model, 'x', '--id', 'hooked', ...webhook)
  expect(Object.keys(done).sort()).toEqual(['answer', 'command_id', 'job_id', 'receipt_hash', 'status', 'webhook'])
  const record = { url: 'https://hooks.example.invalid/in', status: expect.any(String), attempts: expect.any(Number) }
  expect((await line.json('jobs', 'show', 'hooked')).webhook).toMatchObject(record)
  const shown = await line.run(['jobs', 'show', 'hooked'])
  expect(shown.out).toBe('the secret answer\n')
  expect(shown.err).toMatch(/^Webhook {2}\w+, \d attempts?/m)
  expect((await line.json('jobs', 'show', 'mine')).webhook).toBeNull()
})

test('§31: `jobs export` and `verify envelope`: the form, the node’s signature, the binding and the answer, offline', async () => {
  const identity = ['--key', node.identity.publicKey]
  const whole = await line.json<Record<string, unknown>>('jobs', 'export', 'mine', '--with-keys')
  const verified = async (content: object, ...more: string[]) => {
    const at = join(line.home, `${crypto.randomUUID()}.json`)
    writeFileSync(at, JSON.stringify(content))
    const { code, out } = await line.run(['verify', 'envelope', at, '--json', ...more])
    const { verdicts } = JSON.parse(out) as { verdicts: { checks: { name: string; ok: boolean | null }[] }[] }
    const checks = verdicts.flatMap(({ checks }) => checks)
    opening = checks.find(({ name }) => name === 'opening')
    return { code, failed: checks.filter(({ ok }) => ok === false).map(({ name }) => name) }
  }
  let opening: object | undefined
  expect(await verified(whole, ...identity)).toEqual({ code: 0, failed: [] })
  // Anyone who has the file could have sealed an answer, so it proves nothing.
  const detail = expect.stringContaining('anyone who has them could have sealed it')
  expect(opening).toEqual({ name: 'opening', ok: null, detail })
  const { response_keys: _, ...shown } = whole
  expect(await line.json('jobs', 'export', 'mine')).toEqual(shown)
  expect(await verified(shown, ...identity)).toEqual({ code: 0, failed: [] })
  expect(await verified(whole)).toEqual({ code: 1, failed: ['key of the node'] })
  const request = whole.encrypted_request as Record<string, string>
  const response = whole.encrypted_response as Record<string, string>
  const keys = whole.response_keys as Omit<ResponseKeys, 'secret'> & { readonly secret: string }
  // An answer under a key that the node never signed, sealed by whoever made the file.
  const other = { ...keys, nodePublicKey: Buffer.alloc(32, 9).toString('base64url') }
  const sealed = { jobId: String(whole.sealed_job_id), modelId: String(whole.model_id), nodeId: String(whole.node_id) }
  const secret = Buffer.from(keys.secret, 'base64url')
  const forged = {
    response_keys: other,
    encrypted_response: sealResponse({ ...other, secret }, sealed, Buffer.from('made up')),
  }
  const edits: readonly (readonly [object, readonly string[]])[] = [
    [{ encrypted_request: { ...request, algorithm: 'none' } }, ['request']],
    [{ encrypted_request: { ...request, ciphertext: response.ciphertext } }, ['request of the answer']],
    [forged, ['opening']],
    [{ model_id: 'another' }, ['bound to', 'opening']],
    [{ encrypted_response: { ...response, ciphertext: request.ciphertext } }, ['opening']],
    [{ node_keys: { ...(whole.node_keys as object), keys: [] } }, ['key of the node']],
    [{ encrypted_request: 7 }, ['request']],
  ]
  for (const [edit, failed] of edits)
    expect(await verified({ ...whole, ...edit }, ...identity)).toEqual({ code: 1, failed: [...failed] })
})
