import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { createAlarms, readAlarms } from '../../../src/node/membership/alarms.ts'
import { loadIdentity } from '../../../src/node/membership/identity.ts'
import { readPayouts } from '../../../src/node/membership/payout-report.ts'
import { type KeptReceipt, openKeptReceipts } from '../../../src/node/receipts/kept-receipts.ts'
import { lookUpAt } from '../../../src/node/receipts/log-place.ts'
import { createReceiptWatch } from '../../../src/node/receipts/receipt-watch.ts'
import { openWitnessMemory } from '../../../src/node/witness/witness-memory.ts'
import { checkpointText, logProofText } from '../../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import { noteKeyText, noteText, parseNoteKey } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyBundle } from '../../../src/protocol/verify/bundle.ts'
import { minuteMs } from '../../../src/time.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const open = { min_privacy_class: 'public' as const }
const logKey = signingKey(Buffer.from('5a'.repeat(32), 'hex'))

const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_LOG_KEY: '5a'.repeat(32),
      SVC_LOG_INTERVAL_MS: '100',
      SVC_RECEIPT_FLUSH_MS: '10',
      SVC_LOG_COSIGN_MS: '200',
    },
  }),
)
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const server = await fixture(startFakeNode({ models: ['sold'] }))
const token = await enrollmentToken(gateway, owner.customerId, { visibility: 'public', privacyClass: 'public' })
const agent = await fixture(
  startAgent({
    gatewayUrl: gateway.url,
    token: token.enrollment_token,
    runtimes: [server.url],
    visibility: 'public',
  }),
)
await untilState(gateway, agent.nodeId, 'ready')
const folder = openPrivateFolder(agent.node.folder)
await gateway.admin('PUT', '/v1/admin/models', {
  id: 'sold',
  prompt_token_price_wei: '10',
  completion_token_price_wei: '1000',
})
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
server.setAnswer({ chunks: 5, intervalMs: 0 })

const messages = [{ role: 'user', content: 'hello there' }]
interface Told {
  readonly svc: { readonly receipt_hash: string; readonly request_id: string }
}
async function sold(): Promise<Told['svc']> {
  const response = await gateway.chat(payer.key, { model: 'sold', messages, max_tokens: 50 })
  return ((await response.json()) as Told).svc
}
const isLogged = (hash: string) =>
  waitUntil('the log holds it', async () => {
    return (await fetch(`${gateway.url}/v1/public/log/proof?receipt_hash=${hash}`)).status === 200
  })

/** The agent's own parts, as after a restart, `laterMs` from now. */
function watch(laterMs: number, url = gateway.url) {
  const now = () => Date.now() + laterMs
  const log = createLog('silent', () => {})
  const kept = openKeptReceipts({ folder, log, now })
  const asking = { identity: loadIdentity(folder).key, gatewayUrl: gateway.url, nodeId: agent.nodeId }
  const { look } = createReceiptWatch({
    kept,
    lookUp: lookUpAt(url, () => openWitnessMemory(folder).logs()),
    payouts: () => readPayouts(asking),
    alarms: createAlarms(folder, log),
    log,
    now,
  })
  return { kept, look }
}
const alarms = () => readAlarms(folder).map(({ code, subject }) => `${code} ${subject}`)
const waits = (kept: { waiting(): readonly KeptReceipt[] }, hash: string) =>
  kept.waiting().some((one) => one.hash === hash)

describe('§36: a node looks for what it has signed', () => {
  test('in the log, by proofs that lead to what it witnesses: nothing is wrong', async () => {
    const { receipt_hash: hash } = await sold()
    await isLogged(hash)
    const early = watch(minuteMs)
    expect(waits(early.kept, hash)).toBe(true)
    await early.look()
    expect(waits(early.kept, hash)).toBe(true)
    const { kept, look } = watch(2 * minuteMs)
    await look()
    expect([waits(kept, hash), alarms()]).toEqual([false, []])
  })

  test('receipt_missing: one that was dropped before the log, 10 minutes after it was signed', async () => {
    // Signed for a call whose receipt the gateway never wrote.
    const dropped = { requestId: 'req_dropped', hash: `0x${'d0'.repeat(32)}`, ms: Date.now() }
    watch(0).kept.add(dropped)
    await watch(9 * minuteMs).look()
    expect(alarms()).toEqual([])
    await watch(11 * minuteMs).look()
    expect(alarms()).toEqual(['receipt_missing req_dropped'])
    const { kept, look } = watch(12 * minuteMs)
    await look()
    expect([alarms().length, waits(kept, dropped.hash)]).toEqual([1, false])
  })

  test('receipt_replaced: the call was paid by another receipt, which is the gateway’s', async () => {
    server.setAnswer({
      chunks: 5,
      intervalMs: 0,
      usage: { prompt_tokens: 9, completion_tokens: 5_000, total_tokens: 5_009 },
    })
    const { receipt_hash: hash, request_id: requestId } = await sold()
    server.setAnswer({ chunks: 5, intervalMs: 0, usage: null })
    await isLogged(hash)
    expect(
      watch(0)
        .kept.waiting()
        .find((one) => one.requestId === requestId)?.hash,
    ).not.toBe(hash)
    await watch(11 * minuteMs).look()
    expect(alarms()).toEqual(['receipt_missing req_dropped', `receipt_replaced ${requestId}`])
  })

  test('and shows it in `node status`', async () => {
    const cli = commandLine({})
    const { out } = await cli.run(['node', 'status', '--data-dir', agent.node.folder])
    cli.close()
    expect(out).toContain('receipt_missing req_dropped')
    expect(out).toContain('receipt_replaced req_')
  })
})

test('§36: `verify receipt` says where the gateway alone vouches for the work of a node that could have signed', async () => {
  server.setFaults({ kind: 'dropMidStream', afterChunks: 3 })
  const stream = await gateway.chat(payer.key, { model: 'sold', messages, max_tokens: 50, stream: true })
  await stream.text()
  server.clearFaults()
  const requestId = stream.headers.get('x-request-id') ?? ''
  const row = await waitFor('the receipt', async () => {
    const rows = await gateway.database.sql<{ receipt_hash: string }[]>`
      select receipt_hash from receipts where request_id = ${requestId}`
    return rows[0]
  })
  await isLogged(row.receipt_hash)
  const headers = { 'x-svc-customer-id': payer.customerId, 'x-svc-customer-token': payer.customerToken }
  const file = await (await fetch(`${gateway.url}/v1/billing/receipts/${row.receipt_hash}`, { headers })).json()
  const [known] = openWitnessMemory(folder).logs()[0]?.keys ?? []
  const logKeys = [parseNoteKey(known ?? '')].filter((key) => key !== null)
  const none = { witnessKeys: [], nodeKeys: [], auditKeys: [], witnessesMin: 0, logNeeded: true }
  const [verdict] = verifyBundle(file, { ...none, logKeys, remembered: () => [], verify: verifyEd25519 }) ?? []
  expect(verdict?.valid).toBe(true)
  const own = loadIdentity(folder).key.publicKey
  expect(verdict?.checks.find(({ name }) => name === 'node')?.detail).toStartWith(
    `NOT SIGNED by its node, which has an agent with the key ${own}:`,
  )
})

describe('§36: a node believes no proof', () => {
  const origin = () => {
    const [log] = openWitnessMemory(folder).logs()
    return parseNoteKey(log?.keys[0] ?? '')?.name ?? ''
  }
  /** A gateway that shows this node a log of its own, which holds whatever it asks for. */
  async function shownBy(key: typeof logKey, work: (url: string) => Promise<void>): Promise<void> {
    const door = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: ({ url }) => {
        const { searchParams } = new URL(url)
        const hash = searchParams.get('receipt_hash')
        if (hash === null) return Response.json({ object: 'svc.log_consistency', from: 1, to: 2, proof: [] })
        const text = checkpointText({ origin: origin(), size: 1, root: logLeaf({ kind: 'receipt', hash }) })
        const note = noteText({ text, signatures: [logSigner(origin(), key).sign(text)] })
        return Response.json({ log_proof: logProofText({ index: 0, proof: [], note }) })
      },
    })
    await work(door.url.origin).finally(() => door.stop(true))
  }
  const placeAt = (url: string, logs = openWitnessMemory(folder).logs()) =>
    lookUpAt(url, () => logs)(`0x${'ab'.repeat(32)}`)

  test('by another key, or of a log that does not lead on from the one that it witnesses', async () => {
    await waitUntil('the node has signed a checkpoint', async () => openWitnessMemory(folder).logs()[0]?.note != null)
    await shownBy(signingKey(new Uint8Array(32).fill(9)), async (url) => expect(await placeAt(url)).toBe('unproven'))
    await shownBy(logKey, async (url) => expect(await placeAt(url)).toBe('unproven'))
    // By the same key, to a node that has signed nothing yet, nothing is wrong.
    const fresh = [{ origin: origin(), keys: [noteKeyText(logSigner(origin(), logKey).key)], note: null }]
    await shownBy(logKey, async (url) => expect(await placeAt(url, fresh)).toBe('logged'))
    await shownBy(logKey, async (url) => expect(await placeAt(url, [])).toBe('unknown'))
  })

  test('and a look that gets no answer raises nothing: the receipt waits', async () => {
    const waiting = { requestId: 'req_waits', hash: `0x${'d1'.repeat(32)}`, ms: Date.now() }
    watch(0).kept.add(waiting)
    const away = watch(11 * minuteMs, 'http://127.0.0.1:9')
    await expect(away.look()).rejects.toThrow()
    expect([waits(away.kept, waiting.hash), alarms().length]).toEqual([true, 2])
  })
})
