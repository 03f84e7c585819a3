import { expect, test } from 'bun:test'
import { clients, operatorKey, startAnvil, strangerKey } from '../support/money/anvil.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const anvil = await fixture(startAnvil())
const cli = await fixture(
  commandLine({ SVC_CHAIN_RPC_URL: anvil.url, SVC_CHAIN_ID: '31337', SVC_CHAIN_KEY: operatorKey }),
)

interface Told {
  readonly contract: `0x${string}`
  readonly operator: string
  readonly account: string
  readonly cost_wei: string
  readonly sent: boolean
}
const abi = [
  { type: 'function', name: 'operator', inputs: [], outputs: [{ type: 'address' }], stateMutability: 'view' },
]
const operatorAt = (address: `0x${string}`) =>
  clients(anvil).reader.readContract({ address, abi: abi as never, functionName: 'operator' }) as Promise<string>
const codeAt = (address: `0x${string}`) => clients(anvil).reader.getCode({ address })

test('§24: chain deploy: a dry run says what it would do and does nothing; then the contract is where it said', async () => {
  const planned = await cli.json<Told & Record<string, unknown>>('chain', 'deploy', '--dry-run')
  expect(planned).toMatchObject({ sent: false, chain_id: 31_337, operator: planned.account })
  expect(BigInt(planned.cost_wei)).toBeGreaterThan(0n)
  expect(await codeAt(planned.contract)).toBeUndefined()
  const made = await cli.json<Told & Record<string, unknown>>('chain', 'deploy', '--yes')
  expect([made.sent, made.contract.toLowerCase()]).toEqual([true, planned.contract.toLowerCase()])
  expect(await operatorAt(made.contract)).toBe(planned.account)
})

test('§24: chain deploy for another operator, as text', async () => {
  const operator = clients(anvil, strangerKey).account.address
  const made = await cli.run(['chain', 'deploy', '--yes', '--operator', operator.toLowerCase()])
  expect([made.code, made.err]).toEqual([0, expect.stringContaining('Set SVC_CHAIN_CONTRACT=0x')])
  expect(await operatorAt(made.out.trim() as `0x${string}`)).toBe(operator)
  expect(made.out + made.err).not.toContain(operatorKey.slice(2))
})

test('§24: chain deploy asks at a terminal, and a no sends nothing', async () => {
  const account = clients(anvil).account.address
  const before = await clients(anvil).reader.getTransactionCount({ address: account })
  const run = cli.inTerminal(['chain', 'deploy'])
  await waitForText(run, 'Deploy the contract?')
  run.type('n\n')
  expect(await run.exited).toBe(1)
  expect(await clients(anvil).reader.getTransactionCount({ address: account })).toBe(before)
})

async function waitForText(run: { text(): string }, text: string): Promise<void> {
  const { waitUntil } = await import('../support/run/wait-until.ts')
  await waitUntil(text, () => run.text().includes(text))
}

test.each([
  ['without settings', { SVC_CHAIN_KEY: '' }, [], 'Set SVC_CHAIN_RPC_URL', 1],
  ['on another chain', { SVC_CHAIN_ID: '1' }, [], 'serves chain 31337', 1],
  ['without an RPC', { SVC_CHAIN_RPC_URL: 'http://127.0.0.1:9' }, [], 'could not be asked', 1],
  ['without money', { SVC_CHAIN_KEY: `0x${'42'.repeat(32)}` }, ['--yes'], 'has 0 wei', 1],
  ['for what is no address', {}, ['--operator', '0x12'], 'no address', 2],
] as const)('§24: chain deploy %s says why not, without the key', async (_, env, more, text, code) => {
  const refused = await cli.run(['chain', 'deploy', ...more], { env })
  expect([refused.code, refused.err]).toEqual([code, expect.stringContaining(text)])
  expect(refused.err).not.toMatch(/[0-9a-f]{64}/)
})
