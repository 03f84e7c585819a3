import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { StandardMerkleTree } from '@openzeppelin/merkle-tree'
import { BaseError, ContractFunctionRevertedError, type Hex, parseEventLogs, toEventSelector } from 'viem'
import { compiledContract } from '../../scripts/compile-contract.ts'
import { idHash, MerkleTree, payoutLeaf, toHex } from '../../src/protocol/receipts/merkle.ts'
import { settledEventSignature, settledEventTopic } from '../../src/protocol/receipts/settlement-contract.ts'
import { clients, compiled, contractAbi, deploy, startAnvil, strangerKey } from '../support/money/anvil.ts'
import { fixture } from '../support/run/fixture.ts'

const anvil = await fixture(startAnvil())
const address = await deploy(anvil)

const payees = ['0x00000000000000000000000000000000000a0001', '0x00000000000000000000000000000000000a0002'] as const
const rows = [
  { entryId: 'pay_1', payee: payees[0], amountWei: 5_000n },
  { entryId: 'pay_2', payee: payees[1], amountWei: 2_500n },
  { entryId: 'pay_3', payee: payees[1], amountWei: 1n },
]
const total = 7_501n
const tree = MerkleTree.of(rows.map(payoutLeaf))
const id = (text: string) => toHex(idHash(text)) as Hex
const proofOf = (at: number) => [...(tree.proof(payoutLeaf(rows[at] ?? rows[0] ?? never())) ?? [])] as Hex[]
const never = (): never => {
  throw new Error('no such row')
}

async function send(functionName: 'settleBatch' | 'claim', args: readonly unknown[], value = 0n, key?: Hex) {
  const { reader, writer, account } = clients(anvil, key)
  const call = { address, abi: contractAbi, functionName, args, value, account } as never
  await reader.simulateContract(call)
  const hash = await writer.writeContract({ ...(call as object), chain: null } as never)
  return reader.waitForTransactionReceipt({ hash, pollingInterval: 20 })
}

async function refusal(sent: Promise<unknown>): Promise<string> {
  try {
    await sent
  } catch (error) {
    const cause =
      error instanceof BaseError ? error.walk((each) => each instanceof ContractFunctionRevertedError) : null
    if (cause instanceof ContractFunctionRevertedError) return cause.data?.errorName ?? String(cause.reason)
    throw error
  }
  return 'none'
}

const settle = (batch: string, root = tree.root(), amount = total, value = amount, key?: Hex) =>
  send('settleBatch', [id(batch), root, amount, 3n], value, key)
const claim = (batch: string, at: number, change: Partial<(typeof rows)[number]> = {}) => {
  const row = { ...(rows[at] ?? never()), ...change }
  return send('claim', [id(batch), id(row.entryId), row.payee, row.amountWei, proofOf(at)], 0n, strangerKey)
}
const balanceOf = (of: Hex) => clients(anvil).reader.getBalance({ address: of })

test('the committed ABI and bytecode are those of the source', () => {
  expect(readFileSync(join(import.meta.dir, '../../contracts/PayoutSettlement.json'), 'utf8')).toBe(compiledContract())
  const names = compiled.abi.map((entry) => (entry as { name?: string }).name ?? 'constructor')
  for (const entry of contractAbi) expect(names).toContain(entry.name)
})

test('§14: the event is topic 0 of the specification, and holds root, total and count', async () => {
  expect(toEventSelector(`event ${settledEventSignature}`)).toBe(settledEventTopic as Hex)
  const receipt = await settle('bat_event')
  const [log] = parseEventLogs({ abi: contractAbi, logs: receipt.logs, eventName: 'PayoutBatchSettled' })
  expect(receipt.logs[0]?.topics).toEqual([settledEventTopic, id('bat_event'), tree.root()] as never)
  expect(log?.args).toEqual({ batchId: id('bat_event'), root: tree.root() as Hex, total, count: 3n })
})

test('a batch settles once, by the operator alone, with its money', async () => {
  expect(await refusal(settle('bat_a', tree.root(), total, total, strangerKey))).toBe('NotOperator')
  expect(await refusal(settle('bat_a', `0x${'00'.repeat(32)}`))).toBe('EmptyRoot')
  expect(await refusal(settle('bat_a', tree.root(), total, total - 1n))).toBe('WrongValue')
  await settle('bat_a')
  expect(await refusal(settle('bat_a'))).toBe('AlreadySettled')
  expect(await refusal(settle('bat_a', toHex(idHash('other'))))).toBe('AlreadySettled')
})

test('each leaf is claimed once, whoever sends it, and the money goes to the payee', async () => {
  await settle('bat_b')
  const before = await balanceOf(payees[1])
  const receipt = await claim('bat_b', 1)
  const [log] = parseEventLogs({ abi: contractAbi, logs: receipt.logs, eventName: 'PayoutClaimed' })
  expect(log?.args).toMatchObject({ payoutId: id('pay_2'), amount: 2_500n })
  expect((await balanceOf(payees[1])) - before).toBe(2_500n)
  expect(await refusal(claim('bat_b', 1))).toBe('AlreadyClaimed')
  await claim('bat_b', 2)
  await claim('bat_b', 0)
  const { reader } = clients(anvil)
  expect(await reader.readContract({ address, abi: contractAbi, functionName: 'remaining', args: [id('bat_b')] })).toBe(
    0n,
  )
})

test('another amount, payee, payout or batch has no proof', async () => {
  await settle('bat_c')
  expect(await refusal(claim('bat_c', 0, { amountWei: 5_001n }))).toBe('InvalidProof')
  expect(await refusal(claim('bat_c', 0, { payee: payees[1] }))).toBe('InvalidProof')
  expect(await refusal(claim('bat_c', 0, { entryId: 'pay_9' }))).toBe('InvalidProof')
  expect(await refusal(claim('bat_never', 0))).toBe('InvalidProof')
})

test("a wrong root cannot touch another batch's money", async () => {
  const greedy = MerkleTree.of([{ entryId: 'pay_x', payee: payees[0], amountWei: 1_000_000n }].map(payoutLeaf))
  await settle('bat_d')
  await settle('bat_greedy', greedy.root(), 10n)
  const sent = send('claim', [id('bat_greedy'), id('pay_x'), payees[0], 1_000_000n, []], 0n, strangerKey)
  // Arithmetic underflow: more than the batch was settled with.
  expect(await refusal(sent)).not.toBe('none')
})

test("a tree of OpenZeppelin's own library is claimed just so", async () => {
  const values = rows.map((row) => [id(row.entryId), row.payee, row.amountWei])
  const theirs = StandardMerkleTree.of(values, ['bytes32', 'address', 'uint256'])
  await settle('bat_oz', theirs.root)
  await send('claim', [id('bat_oz'), ...(values[0] ?? []), theirs.getProof(0)], 0n, strangerKey)
})
