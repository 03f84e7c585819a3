import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { postJson } from '../clients/post-json.ts'
import { waitUntil } from '../run/wait-until.ts'
import type { Checkout, Fields } from './checkout.ts'

export interface ReleaseCustomer {
  readonly id: string
  readonly token: string
  readonly key: string
}

/** Who and what is in the data of a release. */
export interface ReleaseFacts {
  readonly owner: ReleaseCustomer
  readonly ada: ReleaseCustomer
  readonly nodes: { readonly plain: string; readonly agent: string }
  readonly batch: string
  readonly fingerprint: string
  /** Of all that was answered. */
  readonly receipts: readonly string[]
}

export interface ReleaseGateway {
  readonly url: string
  readonly adminToken: string
}

const payee = `0x${'a1'.repeat(20)}`
const textOf = (fields: Fields, name: string) => String(fields[name])

export async function adminGet({ url, adminToken }: ReleaseGateway, path: string): Promise<Fields> {
  const response = await fetch(url + path, { headers: { 'x-svc-admin-token': adminToken } })
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return (await response.json()) as Fields
}

/** null: no such thing, or not of this customer. */
export async function customerGet(
  { url }: Pick<ReleaseGateway, 'url'>,
  path: string,
  { id, token }: ReleaseCustomer,
): Promise<Fields | null> {
  const headers = { 'x-svc-customer-id': id, 'x-svc-customer-token': token }
  const response = await fetch(url + path, { headers })
  return response.ok ? ((await response.json()) as Fields) : null
}

/** One chat; resolves with the hash of its receipt. */
export async function chat(
  { url }: Pick<ReleaseGateway, 'url'>,
  key: string,
  model: string,
  stream = false,
): Promise<string> {
  const response = await postJson(
    `${url}/v1/api/chat/completions`,
    key,
    { model, stream, messages: [{ role: 'user', content: `Say ${model}.` }], max_tokens: 64 },
    { headers: stream ? {} : { 'x-svc-nonce': 'nonce-of-the-release' } },
  )
  const body = await response.text()
  const hash = /"receipt_hash":"(0x[0-9a-f]{64})"/.exec(body)?.[1]
  if (!response.ok || hash === undefined) throw new Error(`chat of ${model}: ${response.status} ${body}`)
  return hash
}

export const isReady = (gateway: ReleaseGateway, nodeId: string) => async () =>
  (await adminGet(gateway, `/v1/admin/nodes/${nodeId}`)).state === 'ready'

async function customer(release: Checkout, name: string, wei: string | null): Promise<ReleaseCustomer> {
  const anyNode = ['--min-privacy-class', 'public']
  const made = await release.json(['customers', 'create', name, ...anyNode])
  const id = textOf(made, 'customer_id')
  const issued = await release.json(['keys', 'create', 'laptop', '--customer', id, ...anyNode])
  if (wei !== null) await release.json(['credits', 'add', id, wei, '--reason', 'paid by card'])
  return { id, token: textOf(made, 'customer_token'), key: textOf(issued, 'gateway_key') }
}

/** A private job on the customer's own agent, with a webhook that nobody takes; resolves with the hash of its receipt. */
export async function privateJob(
  release: Checkout,
  { url }: Pick<ReleaseGateway, 'url'>,
  who: ReleaseCustomer,
  agent: { readonly nodeId: string; readonly fingerprint: string },
  jobId: string,
): Promise<string> {
  const options = ['--fingerprint', agent.fingerprint, '--id', jobId, '--webhook', 'https://hooks.example.invalid/in']
  const sent = ['jobs', 'submit', agent.nodeId, 'signed', 'Keep this to yourself.']
  return textOf(await release.json([...sent, ...options], release.customer(url, who)), 'receipt_hash')
}

async function enrolled(release: Checkout, { url }: ReleaseGateway, owner: ReleaseCustomer, runtime: string) {
  const open = ['--visibility', 'public', '--privacy-class', 'public']
  const made = await release.json(['nodes', 'enroll', 'agent', '--customer', owner.id, ...open])
  const joins = [
    '--gateway',
    url,
    '--token',
    textOf(made, 'enrollment_token'),
    '--visibility',
    'public',
    '--payout-address',
    payee,
  ]
  return release.startAgent(runtime, joins)
}

async function pool(release: Checkout, owner: ReleaseCustomer, url: string): Promise<string> {
  const prices = ['--prompt-price-wei', '7', '--completion-price-wei', '11']
  for (const model of ['plain', 'signed']) await release.json(['models', 'set', model, ...prices])
  const open = ['--visibility', 'public', '--privacy-class', 'public', '--payout-address', payee]
  const added = await release.json(['nodes', 'add', url, '--customer', owner.id, '--name', 'plain', ...open])
  return textOf(added, 'node_id')
}

/**
 * Fills a release's gateway with every kind of work: free and paid chats, whole and streamed, of a plain node and of an
 * agent that signs; one that fails; credits; private jobs with webhooks; a payout batch; and what all this leaves in the
 * audit. `keep` runs while everything still does.
 */
export async function fillRelease<T>(
  release: Checkout,
  gateway: ReleaseGateway,
  keep: (facts: ReleaseFacts) => Promise<T>,
): Promise<T> {
  const [beside, server] = [startFakeNode({ models: ['signed'] }), startFakeNode({ models: ['plain'] })]
  const [owner, ada] = [await customer(release, 'Owner', null), await customer(release, 'Ada', '1000000000')]
  const plain = await pool(release, owner, server.url)
  const agent = await enrolled(release, gateway, owner, beside.url)
  try {
    for (const id of [plain, agent.nodeId]) await waitUntil('the node', isReady(gateway, id))
    const shown = JSON.stringify(await adminGet(gateway, `/v1/admin/nodes/${agent.nodeId}`))
    const fingerprint = /SHA256:[A-Za-z0-9_-]{43}/.exec(shown)?.[0] ?? ''
    const receipts: string[] = []
    for (const stream of [false, true]) {
      for (const { key } of [owner, ada]) {
        for (const model of ['plain', 'signed']) receipts.push(await chat(gateway, key, model, stream))
      }
    }
    await chat(gateway, ada.key, 'no-such-model').catch(() => {})
    const job = { nodeId: agent.nodeId, fingerprint }
    for (const id of ['job-1', 'job-2']) receipts.push(await privateJob(release, gateway, owner, job, id))
    const made = await release.json(['payouts', 'create'])
    const batch = /"batch_id":"([^"]+)"/.exec(JSON.stringify(made))?.[1] ?? ''
    // What no batch has.
    receipts.push(await chat(gateway, ada.key, 'plain'), await chat(gateway, ada.key, 'signed', true))
    return await keep({ owner, ada, nodes: { plain, agent: agent.nodeId }, batch, fingerprint, receipts })
  } finally {
    await agent.stop()
    beside.stop()
    server.stop()
  }
}
