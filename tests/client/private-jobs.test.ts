import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { x25519 } from '@noble/curves/ed25519.js'
import { createPrivateJobs, GatewayError, identityFingerprint, NodeKeyError } from '../../src/client/private-jobs.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import type { NodeKeys } from '../../src/protocol/wire/inference/job.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { signedKey } from '../support/nodes/job-node.ts'
import { jobCustomer, jobNode, jobRequest, storeKeys } from '../support/pools/job-pool.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))

const seed = (byte: number) => new Uint8Array(32).fill(byte)
const ownKey = x25519.getPublicKey(seed(9))
const liar = signingKey(seed(7))
const firstOf = (keys: NodeKeys) => keys.keys[0] ?? signedKey(liar, ownKey)

/** A client whose gateway changes what it tells of the node's keys; `posts`: what it got sealed. */
function lying(change: (keys: NodeKeys) => NodeKeys) {
  const posts: string[] = []
  const client = createPrivateJobs({
    baseUrl: gateway.url,
    customerId: customer.customerId,
    customerToken: customer.customerToken,
    fetch: async (url, init) => {
      if (init.method === 'POST') posts.push(String(init.body))
      const response = await fetch(url, init)
      return url.endsWith('/keys') ? Response.json(change((await response.json()) as NodeKeys)) : response
    },
  })
  return { client, posts }
}

const lies: readonly (readonly [string, (keys: NodeKeys) => NodeKeys, string])[] = [
  [
    'its own key, signed by its own identity',
    (keys) => ({ ...keys, identity_public_key_ed25519: liar.publicKey, keys: [signedKey(liar, ownKey)] }),
    'identity_changed',
  ],
  ['its own key beside the true identity', (keys) => ({ ...keys, keys: [signedKey(liar, ownKey)] }), 'key_not_signed'],
  [
    'its own key under a signature of the node',
    (keys) => {
      const { signature_ed25519 } = firstOf(keys)
      return { ...keys, keys: [{ ...signedKey(liar, ownKey), signature_ed25519 }] }
    },
    'key_not_signed',
  ],
  [
    'an old key kept alive',
    (keys) => ({ ...keys, keys: [{ ...firstOf(keys), not_after: '2100-01-01T00:00:00.000Z' }] }),
    'key_not_signed',
  ],
  ['a true key and its own', (keys) => ({ ...keys, keys: [...keys.keys, signedKey(liar, ownKey)] }), 'key_not_signed'],
  ['no key', (keys) => ({ ...keys, keys: [] }), 'no_key_in_use'],
]

test.each(lies)('a lying gateway that offers %s gets nothing sealed', async (_, change, fault) => {
  const { client, posts } = lying(change)
  const error = await client.submit(jobRequest(node)).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(NodeKeyError)
  expect((error as NodeKeyError).fault as string).toBe(fault)
  expect(posts).toEqual([])
})

test('an identity of small order, under which one signature fits all, is refused even where it is pinned', async () => {
  const small = 'A'.repeat(43)
  const { client, posts } = lying((keys) => ({ ...keys, identity_public_key_ed25519: small }))
  const request = jobRequest(node, { fingerprint: identityFingerprint(small) ?? '' })
  await expect(client.submit(request)).rejects.toThrow('not signed')
  expect(posts).toEqual([])
})

test('what the client keeps is plain JSON, from which another program opens the answer', async () => {
  const job = await customer.client.submit(jobRequest(node, { jobId: 'kept' }))
  const kept = JSON.parse(JSON.stringify(job))
  const outcome = await createPrivateJobs({ ...customer, baseUrl: `${gateway.url}/` }).wait(kept, { pollMs: 20 })
  expect(outcome.status).toBe('completed')
})

test('an answer that is swapped for another job’s does not open', async () => {
  const one = await customer.client.submit(jobRequest(node))
  const other = await customer.client.submit(jobRequest(node))
  await customer.client.wait(one, { pollMs: 20 })
  await customer.client.wait(other, { pollMs: 20 })
  await expect(customer.client.wait({ ...one, jobId: other.jobId })).rejects.toThrow('does not open')
})

test('§10: a key that was replaced between asking and sealing is asked for once more', async () => {
  let asked = 0
  const { client, posts } = lying((keys) => {
    asked++
    return asked === 1 ? { ...keys, keys: [signedKey(node.identity, ownKey)] } : keys
  })
  const job = await client.submit(jobRequest(node))
  expect([asked, posts.length]).toEqual([2, 2])
  expect((await client.wait(job, { pollMs: 20 })).status).toBe('completed')
})

test('of several keys the newest active one is used', async () => {
  const rotated = x25519.getPublicKey(seed(11))
  const soon = signedKey(node.identity, rotated, { not_before: '2100-01-01T00:00:00.000Z' })
  const retiring = signedKey(node.identity, ownKey, { state: 'retiring' })
  await storeKeys(gateway, node, [retiring, soon, ...node.keys])
  const job = await customer.client.submit(jobRequest(node))
  expect(job.responseKeys.keyId).toBe(node.keys[0]?.key_id ?? '')
  expect((await customer.client.wait(job, { pollMs: 20 })).status).toBe('completed')
  await storeKeys(gateway, node, node.keys)
})

test('a failed job says why; a refusal is an error with its code; a wait can be given up', async () => {
  node.turn({ kind: 'fail', code: 'invalid_payload' }, { kind: 'hold' })
  const failed = await customer.client.submit(jobRequest(node))
  expect(await customer.client.wait(failed, { pollMs: 20 })).toEqual({ status: 'failed', code: 'invalid_payload' })
  const refusal = await customer.client.submit(jobRequest(node, { webhookUrl: 'http://x' })).catch((e: unknown) => e)
  expect(refusal).toBeInstanceOf(GatewayError)
  expect((refusal as GatewayError).code).toBe('webhook_url_invalid')
  expect((refusal as GatewayError).message).toContain('must begin with https://')
  expect((refusal as GatewayError).text.requestId).toStartWith('req_')
  const held = await customer.client.submit(jobRequest(node))
  const abort = new AbortController()
  const waiting = customer.client.wait(held, { pollMs: 60_000, signal: abort.signal, onProgress: () => abort.abort() })
  await expect(waiting).rejects.toThrow('abort')
  node.release()
  await expect(customer.client.submit(jobRequest(node, { chat: { stream: true } }))).rejects.toThrow('no stream')
})

test('it needs what every browser has and nothing else of its surroundings', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-client-'))
  const entry = join(folder, 'entry.ts')
  const client = join(import.meta.dir, '../../src/client/private-jobs.ts')
  await Bun.write(
    entry,
    `import { createPrivateJobs } from ${JSON.stringify(client)}; globalThis.made = createPrivateJobs`,
  )
  const built = await Bun.build({ entrypoints: [entry], target: 'browser', format: 'iife', outdir: folder })
  expect(built.success).toBe(true)
  const { customerId, customerToken } = customer
  const given = { options: { baseUrl: gateway.url, customerId, customerToken }, request: jobRequest(node) }
  const script = `
    const vm = require('node:vm')
    const web = { fetch, crypto, TextEncoder, TextDecoder, atob, btoa, AbortController, setTimeout, clearTimeout }
    const room = vm.createContext(web)
    vm.runInContext(require('node:fs').readFileSync(${JSON.stringify(join(folder, 'entry.js'))}, 'utf8'), room)
    const given = ${JSON.stringify(given)}
    const client = room.made(given.options)
    client.submit(given.request).then((job) => client.wait(job, { pollMs: 20 })).then((outcome) => {
      console.log(JSON.stringify(outcome))
    })`
  const child = Bun.spawn(['node', '-e', script], { stderr: 'pipe' })
  const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await rm(folder, { recursive: true })
  expect(errors).toBe('')
  expect(JSON.parse(out)).toMatchObject({ status: 'completed', answer: { object: 'chat.completion' } })
})
