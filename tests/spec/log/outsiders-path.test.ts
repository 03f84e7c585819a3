import { afterAll, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StandardMerkleTree } from '@openzeppelin/merkle-tree'
import type { Hex } from 'viem'
import { commandLine, root } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { chainId, clients, operatorKey, startAnvil, strangerKey } from '../../support/money/anvil.ts'
import { payFor } from '../../support/money/money.ts'
import { enrollmentToken, startAgent } from '../../support/nodes/agents.ts'
import { fixture } from '../../support/run/fixture.ts'

/**
 * Somebody who has the documents, Python, and libraries of others. Of our program this file uses commands that write files,
 * and nothing that checks them.
 */
const python = (...args: string[]) => Bun.spawnSync(['python3', ...args], { stdout: 'pipe', stderr: 'pipe' })
const hasPython = Bun.which('python3') !== null && python('-c', 'import cryptography').exitCode === 0
const program = join(root, 'docs/verify/verify.py')
const auditKey = 'the-key-that-the-auditor-was-given'
const payee = '0x00000000000000000000000000000000000a0001' as const

const folder = mkdtempSync(join(tmpdir(), 'penstock-outsider-'))

afterAll(async () => {
  for (const one of agents ?? []) await one.remove()
  rmSync(folder, { recursive: true })
})
const anvil = await fixture(startAnvil())
const chain = { SVC_CHAIN_RPC_URL: anvil.url, SVC_CHAIN_ID: String(chainId), SVC_CHAIN_KEY: operatorKey }
const deployer = commandLine(chain)
const contract = (await deployer.json<{ contract: Hex } & Record<string, unknown>>('chain', 'deploy', '--yes')).contract
deployer.close()
const gateway = await fixture(
  startTestGateway({
    env: {
      ...chain,
      SVC_CHAIN_CONTRACT: contract,
      SVC_PAYOUT_ANNOUNCE_MS: '0',
      SVC_SETTLEMENT_POLL_MS: '500',
      SVC_LOG_INTERVAL_MS: '100',
      SVC_LOG_COSIGN_MS: '1000',
      SVC_AUDIT_KEY: auditKey,
    },
  }),
)
const customer = await gateway.customer()
const tokens = [
  await enrollmentToken(gateway, customer.customerId),
  await enrollmentToken(gateway, customer.customerId),
]
const agents = await Promise.all(
  tokens.map(({ enrollment_token: token }) => startAgent({ gatewayUrl: gateway.url, token, runtimes: [] })),
)
const cli = await fixture(
  commandLine({
    SVC_BASE_URL: gateway.url,
    SVC_ADMIN_TOKEN: gateway.tokens.admin,
    SVC_CUSTOMER_ID: customer.customerId,
    SVC_CUSTOMER_TOKEN: customer.customerToken,
  }),
)
await cli.json('credits', 'add', customer.customerId, '1000000')
await gateway.database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class,
    payout_address) values ('node_paid', ${customer.customerId}, 'runtime', 'n', 'public', 'public', 'gpu', ${payee})`

const file = (name: string, content: unknown) => {
  const at = join(folder, name)
  writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content))
  return at
}
const get = async (path: string) => (await fetch(`${gateway.url}${path}`)).json() as Promise<Record<string, unknown>>
const sha256 = (text: string | Uint8Array) => createHash('sha256').update(text).digest()

/** docs/protocol.md: a key of a signed note is its name, a hash of both, and its kind with the key. */
function witnessKey(identity: Uint8Array): string {
  const kid = sha256(identity).subarray(0, 16).toString('base64url')
  const [name, raw] = [`svc-witness/${kid}`, Buffer.concat([Buffer.of(4), identity])]
  const hash = sha256(Buffer.concat([Buffer.from(`${name}\n`), raw])).subarray(0, 4)
  return `${name}+${hash.toString('hex')}+${raw.toString('base64')}`
}

/** RFC 8785, for texts and whole numbers. */
const jcs = (value: unknown): string =>
  typeof value !== 'object' || value === null
    ? JSON.stringify(value)
    : Array.isArray(value)
      ? `[${value.map(jcs).join(',')}]`
      : `{${Object.entries(value)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, item]) => `${JSON.stringify(name)}:${jcs(item)}`)
          .join(',')}}`

/** Runs a few lines beside verify.py. Resolves with what they print; throws where they fail. */
function computed(lines: string, input: unknown): string {
  const at = file(`${crypto.randomUUID()}.json`, input)
  const head = `import sys, json, base64; sys.path.insert(0, ${JSON.stringify(join(root, 'docs/verify'))}); import verify\n`
  const ran = python('-c', `${head}given = json.load(open(${JSON.stringify(at)}))\n${lines}`)
  if (ran.exitCode !== 0) throw new Error(ran.stderr.toString())
  return ran.stdout.toString().trim()
}

const inLog = `
keys = [verify.note_key(key) for key in given["keys"]]
head, _, note = given["log_proof"].partition("\\n\\n")
_, place, *hashes = head.split("\\n")
note = verify.read_note(note)
origin, size, root = verify.checkpoint_in(note)
signers = [key[0] for key in verify.check_note(note, keys)]
leaf = verify.leaf_hash(("svc-log-v1:" + given["kind"] + ":" + given["hash"]).encode())
path = [base64.b64decode(one) for one in hashes]
assert verify.root_by_inclusion(leaf, int(place.removeprefix("index ")), size, path) == root and origin in signers
print(size)`
const grown = `
notes = [verify.read_note(note) for note in given["notes"]]
assert all(len(verify.check_note(note, [verify.note_key(key) for key in given["keys"]])) == 3 for note in notes)
(_, old, old_root), (_, size, root) = map(verify.checkpoint_in, notes)
assert verify.consistent(old, old_root, size, root, [base64.b64decode(one) for one in given["proof"]])
print(old, size)`

test.skipIf(!hasPython)(
  '§31: an outsider checks receipt, log, witnesses, payout and audit with other people’s code, and claims without the operator',
  async () => {
    const { keys } = (await get('/v1/public/log/keys')) as unknown as { keys: string[] }
    const logKey = keys[0] ?? ''
    const rows = await gateway.database.sql<{ identity_key: Uint8Array }[]>`
      select identity_key from nodes where identity_key is not null`
    const witnesses = rows.map(({ identity_key }) => witnessKey(new Uint8Array(identity_key)))
    expect(witnesses).toHaveLength(2)
    const checkpoint = async () => (await fetch(`${gateway.url}/v1/public/log/checkpoint`)).text()
    const witnessed = () =>
      waitFor('two witnesses', async () => {
        const note = await checkpoint()
        return note.split('\n— svc-witness/').length === 3 ? note : undefined
      })
    const early = await witnessed()

    // Receipt → inclusion → checkpoint with two witnesses.
    const work = { customerId: customer.customerId, nodeId: 'node_paid', amountWei: 1_000n }
    const hash = await payFor(gateway.database, work)
    const exported = await waitFor('the receipt below two witnesses', async () => {
      const { out, code } = await cli.run(['receipts', 'export', hash])
      return code === 0 && out.split('— svc-witness/').length === 3 ? out : undefined
    })
    const memory = ['--memory', join(folder, 'public-logs.json')]
    const trust = [...memory, '--log-key', logKey, ...witnesses.flatMap((key) => ['--witness', key])]
    const receipt = python(program, 'receipt', file('receipt.json', exported), ...trust)
    expect([receipt.exitCode, receipt.stderr.toString()]).toEqual([0, ''])
    for (const key of witnesses) expect(receipt.stdout.toString()).toContain(key.split('+')[0] ?? '')
    const lie = exported.replace('"completion_tokens": ', '"completion_tokens": 1')
    expect(python(program, 'receipt', file('lie.json', lie), ...trust).exitCode).toBe(1)

    // … → consistency with an older one.
    const late = await witnessed()
    const sizeOf = (note: string) => Number(note.split('\n')[1])
    const { proof } = await get(`/v1/public/log/proof?from=${sizeOf(early)}&to=${sizeOf(late)}`)
    const told = computed(grown, { keys: [logKey, ...witnesses], notes: [early, late], proof })
    expect(told).toBe(`${sizeOf(early)} ${sizeOf(late)}`)

    // Audit export → chain and heads in the log.
    const audit = await cli.json<Record<string, unknown>>('audit', 'export')
    interface Chain {
      readonly writer_id: string
      readonly ordinal: number
      readonly seq: number
      readonly events: readonly { readonly kind: string; readonly facts: string; readonly mac: string }[]
      readonly logged: { readonly seq: number; readonly mac: string; readonly log_proof: string }
    }
    const chains = audit.chains as readonly Chain[]
    expect(chains.length).toBeGreaterThan(0)
    for (const { writer_id, ordinal, events, logged } of chains) {
      let previous = '00'.repeat(32)
      const macs = events.map(({ kind, facts, mac }) => {
        const text = `audit-chain-v1\0${kind}\0${jcs({ ...JSON.parse(facts), previous })}`
        expect(createHmac('sha256', auditKey).update(text).digest('hex')).toBe(mac)
        previous = mac
        return mac
      })
      expect(macs[logged.seq - 1]).toBe(logged.mac)
      const end = { v: 'svc-audit-head-v1', writer_id, ordinal, seq: logged.seq, mac: logged.mac }
      const entry = { kind: 'audit', hash: `0x${sha256(jcs(end)).toString('hex')}` }
      expect(Number(computed(inLog, { keys: [logKey], log_proof: logged.log_proof, ...entry }))).toBeGreaterThan(0)
    }

    // Payout → claim, by a stranger, with the gateway gone.
    const built = await gateway.admin<{ batch: { batch_id: string } }>('POST', '/v1/admin/payout-batches', {})
    const { batch_id: batchId } = built.batch
    const batch = await waitFor('the settled batch', async () => {
      await anvil.mine()
      const leaves = await get(`/v1/public/payout-batches/${batchId}/leaves`)
      const onChain = await clients(anvil).reader.getLogs({ address: contract, fromBlock: 0n })
      return onChain.length > 0
        ? (leaves as unknown as { merkle_root: Hex; proofs: Record<string, string>[] })
        : undefined
    })
    await gateway.stop()
    const abi = (await Bun.file(join(root, 'contracts/PayoutSettlementV2.json')).json()).abi
    const values = batch.proofs.map((one) => [one.payout_id, one.payee, one.amount_wei])
    const tree = StandardMerkleTree.of(values, ['bytes32', 'address', 'uint256'])
    expect([tree.root, values[0]?.[0]]).toEqual([batch.merkle_root, hash])
    const { reader, writer, account } = clients(anvil, strangerKey)
    const id = computed('print("0x" + verify.keccak256(given["id"].encode()).hex())', { id: batchId })
    const onChain = await reader.readContract({ address: contract, abi, functionName: 'root', args: [id] })
    expect(onChain).toBe(batch.merkle_root)
    const leaves = file('payout.json', { proofs: batch.proofs })
    expect(python(program, 'payout', leaves, '--root', String(onChain), ...memory).exitCode).toBe(0)
    const [payoutId, to, amount] = values[0] ?? []
    const before = await reader.getBalance({ address: payee })
    const args = [id, payoutId, to, BigInt(amount ?? 0), tree.getProof(0)]
    const call = { address: contract, abi, functionName: 'claim', args, account, chain: null } as never
    const sent = await writer.writeContract(call)
    expect((await reader.waitForTransactionReceipt({ hash: sent, pollingInterval: 50 })).status).toBe('success')
    expect((await reader.getBalance({ address: payee })) - before).toBe(BigInt(amount ?? 0))
  },
)
