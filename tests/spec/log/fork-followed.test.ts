import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseNote } from '../../../src/protocol/log/note.ts'
import { type CommandLine, commandLine } from '../../cli/command-line.ts'
import { dialledAgent, newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { receiptOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { keepLog } from '../../support/money/kept-log.ts'
import { fixture } from '../../support/run/fixture.ts'
import { type LyingProxy, lyingProxy } from '../../support/verdicts/lying-proxy.ts'

const lines: CommandLine[] = []
const proxies: LyingProxy[] = []

afterAll(async () => {
  for (const line of lines) line.close()
  for (const proxy of proxies) await proxy.stop()
})
let note: string | null = null
const logMemory = { read: () => note, write: (text: string) => (note = text) }
const env = { ...stillLog, SVC_LOG_COSIGN_MS: '600000' }
const gateway = await fixture(startTestGateway(env, undefined, { logMemory }))
const customer = await newAccount(gateway)
const agent = await fixture(dialledAgent(gateway, customer.id))

/** Somebody who verifies, on a computer of their own. */
function verifier() {
  const cli = commandLine({
    SVC_BASE_URL: gateway.url,
    SVC_CUSTOMER_ID: customer.id,
    SVC_CUSTOMER_TOKEN: customer.token,
  })
  lines.push(cli)
  return async (hash: string, ...more: string[]) => {
    const exported = await cli.run(['receipts', 'export', hash])
    expect(exported.code).toBe(0)
    const at = join(cli.home, `${crypto.randomUUID()}.json`)
    writeFileSync(at, exported.out)
    return cli.run(['verify', 'receipt', at, ...more])
  }
}

/** Somebody who follows the log, under a policy of these keys: the exit code and the findings. */
function monitor(url = gateway.url) {
  const cli = commandLine({})
  lines.push(cli)
  const [policy, state] = [join(cli.home, 'policy'), join(cli.home, 'monitor')]
  return async (keys: readonly string[]) => {
    writeFileSync(policy, `log ${keys[0]}\nwitness w ${agent.node.witnessKey}\nquorum w\n`)
    const args = ['--policy', policy, '--log', url, '--state', state, '--once', '--json']
    const { code, out } = await cli.run(['monitor', ...args])
    const told = out
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { finding?: string })
    return [code, told.flatMap(({ finding }) => finding ?? [])]
  }
}

async function grow(count: number): Promise<string> {
  const rows = Array.from({ length: count }, () => receiptOf(customer.id))
  await insertReceipts(gateway.database, rows)
  await gateway.gateway.sequencer.catchUp()
  return rows[0]?.hash ?? ''
}

const round = () => gateway.gateway.cosigning.round()
const signers = async () => {
  const note = parseNote(await (await gateway.ask('GET', '/v1/public/log/checkpoint')).text())
  return note?.signatures.map(({ name }) => name.split('/')[0])
}

test('§36: after a named fork witnesses and verifiers go on from what they saw, and forget nothing', async () => {
  const { keys } = (await json(await gateway.ask('GET', '/v1/public/log/keys'))) as unknown as { keys: string[] }
  const [early, late, unlucky] = [verifier(), verifier(), verifier()]
  const proxy = lyingProxy(gateway.url)
  proxies.push(proxy)
  const [watching, lateWatching, deceived] = [monitor(), monitor(), monitor(proxy.url)]
  const first = await grow(3)
  expect(await round()).toBe(1)
  expect((await early(first, '--log-key', keys[0] ?? '')).code).toBe(0)
  expect(await watching(keys)).toEqual([0, []])
  expect(await deceived(keys)).toEqual([0, []])
  const putBack = await keepLog(gateway.database.sql)
  const second = await grow(2)
  expect((await unlucky(second, '--log-key', keys[0] ?? '')).code).toBe(0)
  const third = await grow(2)
  expect(await round()).toBe(1)
  expect((await late(third, '--log-key', keys[0] ?? '')).code).toBe(0)
  expect(await lateWatching(keys)).toEqual([0, []])
  // The last one that the gateway has seen; the witness has not.
  await grow(1)

  await putBack()
  await grow(1)
  const named = await gateway.ask('POST', '/v1/admin/log/fork', {
    as: 'admin',
    json: { reason: 'restored', confirm: 'NAME THE FORK' },
  })
  expect(named.status).toBe(200)
  // What the witness signed is not what the fork's entry names: the log adds an entry that does, and it goes on from there.
  expect(await round()).toBe(0)
  expect(await round()).toBe(1)
  expect(await signers()).toEqual(['svc-log', 'svc-witness'])
  await grow(1)
  expect(await round()).toBe(1)
  expect(gateway.gateway.sequencer.fork()).toBeNull()
  const { forks } = (await json(await gateway.ask('GET', '/v1/public/log/forks'))) as unknown as { forks: object[] }
  expect(forks).toHaveLength(2)

  // A monitor says that there is a fork, and goes on where its policy names the log's later name.
  expect(await watching(keys)).toEqual([1, ['log_unnamed']])
  const after = (await json(await gateway.ask('GET', '/v1/public/log/keys'))) as unknown as { keys: string[] }
  expect(await watching(after.keys)).toEqual([1, ['log_forked']])
  expect(await watching(after.keys)).toEqual([0, []])
  expect(await lateWatching(after.keys)).toEqual([1, ['log_forked']])
  expect(await lateWatching(after.keys)).toEqual([0, []])
  // A log that hides what proves it is not believed, and the monitor does not go on with it.
  proxy.lies.set('/v1/public/log/forks', () => '{"object":"svc.log_forks","forks":[]}')
  for (let at = 0; at < 2; at++) expect(await deceived(after.keys)).toEqual([1, ['fork_unproven']])
  proxy.lies.clear()
  expect(await deceived(after.keys)).toEqual([1, ['log_forked']])
  // By the entries that are still there, and by the checkpoint that the log admits to have lost.
  const kept = await early(first)
  expect([kept.code, kept.out]).toEqual([0, expect.stringContaining('/2 goes on from the 5 entries of svc-log/')])
  const lost = await late(first)
  expect([lost.code, lost.out]).toEqual([0, expect.stringContaining('of which it says that it lost')])
  // Of what this one saw nothing is said: for it the log is another one, and stays so.
  const refused = await unlucky(first)
  expect([refused.code, refused.out]).toEqual([1, expect.stringContaining('SPLIT VIEW')])
  expect((await unlucky(first)).code).toBe(1)
  // From then on the later name is known.
  const more = await grow(1)
  expect((await early(more)).code).toBe(0)
  expect((await late(more)).code).toBe(0)
})

test('§36: the key of a witness is what its owner reads and what the gateway lists', async () => {
  const cli = commandLine({})
  lines.push(cli)
  const status = await cli.run(['node', 'status', '--data-dir', agent.node.folder, '--json'])
  expect(status.code).toBe(0)
  const shown = JSON.parse(status.out) as { witness_key: string; node_id: string; witnessed: { origin: string }[] }
  expect(shown).toMatchObject({ node_id: agent.nodeId, witness_key: agent.node.witnessKey })
  expect(shown.witnessed.map(({ origin }) => origin)).toEqual([expect.stringMatching(/^svc-log\/[0-9a-f]{16}\/2$/)])
  const listed = (await json(await gateway.ask('GET', '/v1/public/log/witnesses'))) as unknown as object
  expect(listed).toEqual({
    object: 'svc.log_witnesses',
    witnesses: [{ kind: 'agent', key: shown.witness_key }],
  })
  const text = await cli.run(['node', 'status', '--data-dir', agent.node.folder])
  expect(text.out).toContain(shown.witness_key)
})
