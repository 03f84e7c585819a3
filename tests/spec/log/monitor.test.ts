import { beforeEach, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointText } from '../../../src/protocol/log/checkpoint.ts'
import { leafHash, rootOfLeaves } from '../../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { entryBundle } from '../../../src/protocol/log/tiles.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { commandLine } from '../../cli/command-line.ts'
import { dialledAgent } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { receiptOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { lyingProxy } from '../../support/verdicts/lying-proxy.ts'

const payee = `0x${'ab'.repeat(20)}`

const env = { ...stillLog, SVC_LOG_COSIGN_MS: '600000', SVC_PUBLIC_RPM_PER_IP: '1000000' }
const gateway = await fixture(startTestGateway(env))
/** Of the same keys, and so of the same name, with a log of its own. */
const other = await fixture(startTestGateway(env))
const customerId = await fundedCustomer(gateway.database, 1_000_000n)
const strangerId = await fundedCustomer(other.database, 1n)
const agent = await fixture(dialledAgent(gateway, customerId))
await gateway.database.sql`update nodes set payout_address = ${payee} where node_id = ${agent.nodeId}`
const { keys } = (await json(await gateway.ask('GET', '/v1/public/log/keys'))) as unknown as { keys: string[] }
const logKey = keys[0] ?? ''
const proxy = await fixture(lyingProxy(gateway.url))
const cli = await fixture(commandLine())

const policyFile = () => join(cli.home, 'policy')
const folder = () => join(cli.home, 'monitor')
const stateOf = () =>
  JSON.parse(readFileSync(join(folder(), 'monitor.json'), 'utf8')) as {
    origin: string
    tree: { size: number }
    checks: { batches: { pending: { sinceMs: number; isNew: boolean }[] } }
  }
beforeEach(() => {
  proxy.lies.clear()
  proxy.asked.length = 0
  rmSync(folder(), { recursive: true, force: true })
  writeFileSync(policyFile(), `log ${logKey}\nwitness agent ${agent.node.witnessKey}\nquorum agent\n`)
})

async function grow(of: TestGateway, count: number): Promise<void> {
  const rows = Array.from({ length: count }, () => receiptOf(of === gateway ? customerId : strangerId))
  await insertReceipts(of.database, rows)
  await of.gateway.sequencer.catchUp()
}
const signed = async (count: number) => {
  await grow(gateway, count)
  expect(await gateway.gateway.cosigning.round()).toBe(1)
}

interface Looked {
  readonly code: number
  readonly err: string
  /** The codes of the findings, in their order. */
  readonly found: readonly string[]
  readonly subjects: readonly string[]
}
async function look(url = proxy.url, ...more: string[]): Promise<Looked> {
  const args = ['monitor', '--policy', policyFile(), '--log', url, '--state', folder(), '--once', '--json', ...more]
  const { code, out, err } = await cli.run(args)
  const lines = out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { finding?: string; subject?: string })
  const findings = lines.filter(({ finding }) => finding !== undefined)
  return {
    code,
    err,
    found: findings.map(({ finding }) => finding ?? ''),
    subjects: findings.map(({ subject }) => subject ?? ''),
  }
}
const sound = { code: 0, err: '', found: [], subjects: [] }

test('§36: a monitor reads every entry, keeps where it stands, and finds nothing in a sound log', async () => {
  await signed(300)
  expect(await look()).toEqual(sound)
  const { size } = stateOf().tree
  expect(size).toBeGreaterThan(300)
  expect(proxy.asked.filter((path) => path.includes('/tile/entries/'))).toEqual([
    '/v1/public/log/tile/entries/000',
    expect.stringMatching(/^\/v1\/public\/log\/tile\/entries\/001\.p\/\d+$/),
  ])
  proxy.asked.length = 0
  await signed(2)
  expect(await look()).toEqual(sound)
  expect(stateOf().tree.size).toBeGreaterThanOrEqual(size + 2)
  // What was read once is not read again.
  expect(proxy.asked.filter((path) => path.includes('/tile/entries/000'))).toEqual([])
})

test('§36: a monitor shows a split view: another log under the same keys, and entries that are not those of the root', async () => {
  await signed(3)
  expect(await look()).toEqual(sound)
  const { size } = stateOf().tree
  // The same keys, so that all that this log says is signed; no witness has seen it.
  await grow(other, 2)
  writeFileSync(policyFile(), `log ${logKey}\nquorum none\n`)
  expect(await look(other.url)).toMatchObject({ code: 1, found: ['log_shrunk'] })
  await grow(other, size)
  expect(await look(other.url)).toMatchObject({ code: 1, found: ['split_view'] })
  // The monitor stands where it stood, and says so again.
  expect(stateOf().tree.size).toBe(size)
  expect(await look(other.url)).toMatchObject({ code: 1, found: ['split_view'] })
  expect(await look()).toEqual(sound)
  await signed(1)
  proxy.lies.set('/v1/public/log/tile/entries/', (bundle) => {
    const at = bundle.lastIndexOf('0x') + 5
    return `${bundle.slice(0, at)}${bundle[at] === 'a' ? 'b' : 'a'}${bundle.slice(at + 1)}`
  })
  expect(await look()).toMatchObject({ code: 1, found: ['split_view'] })
  proxy.lies.clear()
  expect(await look()).toEqual(sound)
})

test('§36: a monitor names an entry of a kind that this version does not know, and reads on', async () => {
  const entries = [`svc-log-v1:books:0x${'01'.repeat(32)}`, `svc-log-v9:future:0x${'02'.repeat(32)}`, 'hello'].map(
    (text) => new TextEncoder().encode(text),
  )
  const root = rootOfLeaves(entries.map(leafHash))
  // The gateway's own key and name: a log of a version to come.
  const log = logSigner(logKey.split('+')[0] ?? '', signingKey(new Uint8Array(Buffer.from('77'.repeat(32), 'hex'))))
  const text = checkpointText({ origin: log.key.name, size: entries.length, root })
  proxy.lies.set('/v1/public/log/checkpoint', () => Buffer.from(noteText({ text, signatures: [log.sign(text)] })))
  proxy.lies.set('/v1/public/log/tile/entries/', () => entryBundle(entries))
  proxy.lies.set('/v1/public/settlement', () => '{"payout_batches":[]}')
  writeFileSync(policyFile(), `log ${logKey}\nquorum none\n`)
  const { code, err, found, subjects } = await look()
  expect({ code, err, found }).toEqual({ code: 1, err: '', found: ['entry_unknown', 'entry_unknown'] })
  expect(subjects).toEqual(['entry 1', 'entry 2'])
  expect(stateOf().tree.size).toBe(entries.length)
})

test('§36: a monitor misses witnesses, and takes no checkpoint that the log of its policy has not signed', async () => {
  await signed(1)
  const stranger = logSigner('witness.example/w', signingKey(new Uint8Array(32).fill(9)))
  const both = [`witness agent ${agent.node.witnessKey}`, `witness w ${noteKeyText(stranger.cosigningKey)}`]
  const policyOf = (...lines: string[]) => writeFileSync(policyFile(), `${lines.join('\n')}\n`)
  policyOf(`log ${logKey}`, ...both, 'group both all agent w', 'quorum both')
  expect(await look()).toMatchObject({ code: 1, found: ['quorum_missing'] })
  policyOf(`log ${logKey}`, ...both, 'group one any agent w', 'quorum one')
  expect(await look()).toEqual(sound)
  // A line of the witness that does not hold is not merely one that is missing.
  proxy.lies.set('/v1/public/log/checkpoint', (note) =>
    note.replace(/(svc-witness\/\S+ \S{30})(.)/, (_, start, one) => start + (one === 'A' ? 'B' : 'A')),
  )
  expect(await look()).toMatchObject({ code: 1, found: ['checkpoint_invalid'] })
  proxy.lies.set('/v1/public/log/checkpoint', (note) =>
    note.replace(/\n(\d+)\n/, (_, size) => `\n${Number(size) + 1}\n`),
  )
  expect(await look()).toMatchObject({ code: 1, found: ['checkpoint_invalid'] })
  proxy.lies.set('/v1/public/log/checkpoint', () => 'hello')
  expect(await look()).toMatchObject({ code: 1, found: ['checkpoint_invalid'], subjects: ['log'] })
  proxy.lies.set('/v1/public/log/checkpoint', () => null)
  expect(await look()).toMatchObject({ code: 1, found: ['log_shrunk'] })
  proxy.lies.clear()
  policyOf(`log ${noteKeyText(stranger.key)}`, 'quorum none')
  expect(await look()).toMatchObject({ code: 1, found: ['log_unnamed'] })
})

/** A batch of one payout. The monitor has followed the log before, so that it knows how long the batch is announced. */
async function batchOf(amountWei: bigint): Promise<{ readonly batchId: string; readonly receipt: string }> {
  const receipt = await payFor(gateway.database, { customerId, nodeId: agent.nodeId, amountWei })
  // The list of batches is cached for some seconds: the monitor is not to fill that cache before there is the batch.
  proxy.lies.set('/v1/public/settlement', () => '{"payout_batches":[]}')
  await signed(1)
  expect(await look()).toEqual(sound)
  const made = await gateway.ask('POST', '/v1/admin/payout-batches', { as: 'admin', json: {} })
  const {
    batch: { batch_id },
  } = (await made.json()) as { batch: { batch_id: string } }
  const listed = (await (
    await gateway.ask('GET', '/v1/admin/payout-batches?limit=1000', { as: 'admin' })
  ).json()) as object
  const wanted = (listed as { batches: { batch_id: string }[] }).batches.filter((one) => one.batch_id === batch_id)
  proxy.lies.set('/v1/public/settlement', () => JSON.stringify({ payout_batches: wanted }))
  await signed(1)
  return { batchId: batch_id, receipt }
}
const relisted = (change: (batch: Record<string, unknown>) => object) => {
  const before = proxy.lies.get('/v1/public/settlement')
  const { payout_batches: batches } = JSON.parse(String(before?.('', ''))) as {
    payout_batches: Record<string, unknown>[]
  }
  proxy.lies.set('/v1/public/settlement', () => JSON.stringify({ payout_batches: batches.map(change) }))
}

test('§36: a monitor compares a batch with its leaves, its receipts and the payees that it was given', async () => {
  const { batchId, receipt } = await batchOf(1_000n)
  const leaves = `/v1/public/payout-batches/${batchId}/leaves`
  const state = readFileSync(join(folder(), 'monitor.json'))
  const again = async (...more: string[]) => {
    writeFileSync(join(folder(), 'monitor.json'), state)
    return look(proxy.url, ...more)
  }
  expect(await again()).toEqual(sound)
  expect(proxy.asked).toContain(leaves)
  const payees = join(cli.home, 'payees')
  writeFileSync(payees, `# of my node\n${receipt} ${payee.toUpperCase().replace('0X', '0x')}\n`)
  expect(await again('--payees', payees)).toEqual(sound)
  writeFileSync(payees, `${receipt} 0x${'cd'.repeat(20)}\n`)
  expect(await again('--payees', payees)).toMatchObject({ code: 1, found: ['payee_differs'], subjects: [receipt] })
  const lies: readonly ((text: string) => string | null)[] = [
    (text) => text.replaceAll(payee, `0x${'cd'.repeat(20)}`),
    (text) => text.replace(/"amount_wei":"\d+"/, '"amount_wei":"1"'),
    (text) => text.replaceAll(receipt, `0x${'12'.repeat(32)}`),
    (text) => text.replace(/"proofs":\[.*\]/, '"proofs":[]'),
    (text) => text.replace(/"proofs":\[(.*)\]/, '"proofs":[$1,$1]'),
    () => null,
  ]
  for (const lie of lies) {
    proxy.lies.set(leaves, lie)
    expect(await again()).toMatchObject({ code: 1, found: ['leaves_differ'], subjects: [batchId] })
  }
  proxy.lies.delete(leaves)
  // A receipt that the log does not hold, or that it proves below a root of its own.
  proxy.lies.set(`/v1/public/log/proof?hash=${receipt}`, () => null)
  expect(await again()).toMatchObject({ code: 1, found: ['payout_without_receipt'], subjects: [receipt] })
  proxy.lies.set(`/v1/public/log/proof?hash=${receipt}`, (text) =>
    text.replace(/index (\d+)/, (_, at) => `index ${Number(at) - 1}`),
  )
  expect(await again()).toMatchObject({ code: 1, found: ['payout_without_receipt'] })
})

test('§36: a monitor finds a batch that is settled before its time, without an announcement, or that nobody lists', async () => {
  const { batchId } = await batchOf(2_000n)
  expect(await look()).toEqual(sound)
  const state = readFileSync(join(folder(), 'monitor.json'))
  const again = async (...more: string[]) => {
    writeFileSync(join(folder(), 'monitor.json'), state)
    return look(proxy.url, ...more)
  }
  expect(stateOf().checks.batches.pending.filter(({ isNew }) => isNew)).toHaveLength(1)
  relisted((batch) => ({ ...batch, status: 'submitted' }))
  expect(await again()).toMatchObject({ code: 1, found: ['batch_settled_early'], subjects: [batchId] })
  expect(await again('--announce-hours', '0')).toEqual(sound)
  // A batch of the same name with another sum: what was announced is not what is settled.
  relisted((batch) => ({ ...batch, total_amount_wei: '7' }))
  expect(await again()).toMatchObject({ code: 1, found: ['batch_not_logged'], subjects: [batchId] })
  // Announced, and not to be found: after ten minutes.
  proxy.lies.set('/v1/public/settlement', () => '{"payout_batches":[]}')
  expect(await again()).toEqual(sound)
  const kept = stateOf()
  kept.checks.batches.pending = kept.checks.batches.pending.filter(({ isNew }) => isNew)
  for (const one of kept.checks.batches.pending) one.sinceMs -= 11 * 60_000
  writeFileSync(join(folder(), 'monitor.json'), JSON.stringify(kept))
  expect(await look()).toMatchObject({ code: 1, found: ['batch_unknown'] })
})

test('§36: a monitor that follows goes on while the log is away, shows each finding once, and ends on a signal', async () => {
  await signed(1)
  const args = ['monitor', '--policy', policyFile(), '--log', proxy.url, '--state', folder(), '--every', '5', '--json']
  proxy.lies.set('/v1/public/log/checkpoint', () => 'hello')
  const run = cli.start(args)
  const asked = () => proxy.asked.filter((path) => path === '/v1/public/log/checkpoint').length
  await waitUntil('two looks', async () => asked() >= 2)
  run.kill('SIGTERM')
  const [code, out] = await Promise.all([run.exited, new Response(run.stdout).text()])
  expect([code, out.match(/checkpoint_invalid/g)?.length]).toEqual([1, 1])
})

test('§36: what a monitor cannot use or cannot reach is said, and is no finding', async () => {
  const run = (...args: string[]) => cli.run(['monitor', '--state', folder(), '--once', ...args])
  const policy = ['--policy', policyFile()]
  expect((await run('--log', gateway.url)).err).toContain('--policy is missing')
  expect((await run(...policy)).code).toBe(2)
  expect((await run(...policy, '--log', 'ftp://x')).code).toBe(2)
  writeFileSync(join(cli.home, 'empty'), 'quorum none\n')
  expect((await run('--policy', join(cli.home, 'empty'), '--log', gateway.url)).err).toContain('names no log')
  writeFileSync(join(cli.home, 'payees'), 'hello\n')
  expect((await run(...policy, '--log', gateway.url, '--payees', join(cli.home, 'payees'))).err).toContain('Line 1')
  expect((await run(...policy, '--log', 'http://127.0.0.1:9')).code).toBe(3)
  proxy.lies.set('/v1/public/log/tile/', () => new Uint8Array([0, 9, 1]))
  expect((await run(...policy, '--log', proxy.url)).code).toBe(3)
  // What was damaged is not taken for a new beginning.
  proxy.lies.clear()
  expect((await run(...policy, '--log', proxy.url)).code).toBe(0)
  const file = join(folder(), 'monitor.json')
  writeFileSync(file, readFileSync(file, 'utf8').replace('"hashes": [', '"hashes": ["AAAA", '))
  const damaged = await run(...policy, '--log', proxy.url)
  expect([damaged.code, damaged.err]).toEqual([1, expect.stringContaining('is damaged')])
})
