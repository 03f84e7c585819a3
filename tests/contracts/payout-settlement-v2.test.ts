import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { StandardMerkleTree } from '@openzeppelin/merkle-tree'
import { BaseError, ContractFunctionRevertedError, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { compiledContract } from '../../scripts/compile-contract.ts'
import { idHash, MerkleTree, payoutLeafOf, toHex } from '../../src/protocol/receipts/merkle.ts'
import { type Anvil, clients, operatorKey, startAnvil, strangerKey } from '../support/money/anvil.ts'

const compiled = JSON.parse(readFileSync(join(import.meta.dir, '../../contracts/PayoutSettlementV2.json'), 'utf8')) as {
  readonly abi: never
  readonly bytecode: Hex
}

let anvil: Anvil
let address: Hex
const operator = privateKeyToAccount(operatorKey).address
const payee = privateKeyToAccount(strangerKey).address

async function deployed(owner: Hex = operator): Promise<Hex> {
  const { writer, reader } = clients(anvil)
  const hash = await writer.deployContract({
    abi: compiled.abi,
    bytecode: compiled.bytecode,
    args: [owner] as never,
    chain: null,
  })
  return (await reader.waitForTransactionReceipt({ hash, pollingInterval: 20 })).contractAddress as Hex
}
beforeAll(async () => {
  anvil = await startAnvil()
  address = await deployed()
})
afterAll(() => anvil.stop())

const receiptHash = (at: number) => `0x${String(at).repeat(64)}` as Hex
const elsewhere = '0x00000000000000000000000000000000000a0009' as const
const rows = [
  { receiptHash: receiptHash(1), entryId: 'pay_1', payee, amountWei: 5_000n },
  { receiptHash: receiptHash(2), entryId: 'pay_2', payee: elsewhere, amountWei: 2_500n },
]
const total = 7_500n
const tree = MerkleTree.of(rows.map(payoutLeafOf))
const proofOf = (at: number) => [...(tree.proof(payoutLeafOf(rows[at] as never)) ?? [])] as Hex[]
const id = (text: string) => toHex(idHash(text)) as Hex

async function send(
  functionName: string,
  args: readonly unknown[],
  { value = 0n, key, to = address }: { value?: bigint; key?: Hex; to?: Hex } = {},
) {
  const { reader, writer, account } = clients(anvil, key)
  const call = { address: to, abi: compiled.abi, functionName, args, value, account } as never
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
const read = (functionName: string, args: readonly unknown[] = [], at = address) =>
  clients(anvil).reader.readContract({ address: at, abi: compiled.abi, functionName, args } as never)
const settle = (batch: string, root = tree.root(), amount = total, value = amount, key?: Hex) =>
  send('settleBatch', [id(batch), root, amount, 2n], { value, ...(key === undefined ? {} : { key }) })
const balanceOf = (of: Hex) => clients(anvil).reader.getBalance({ address: of })

test('the committed ABI and bytecode are those of the source, and the tree is OpenZeppelin’s own over receipt hashes', () => {
  expect(JSON.parse(compiledContract('PayoutSettlementV2'))).toMatchObject(compiled as object)
  const values = rows.map((row) => [row.receiptHash, row.payee, row.amountWei])
  expect(StandardMerkleTree.of(values, ['bytes32', 'address', 'uint256']).root).toBe(tree.root())
})

describe('§31: the second contract', () => {
  test('takes a batch once, from the operator alone, with all of its money', async () => {
    expect(await refusal(settle('a', tree.root(), total, total, strangerKey))).toBe('NotOperator')
    expect(await refusal(settle('a', tree.root(), total, total - 1n))).toBe('WrongValue')
    expect(await refusal(settle('a', tree.root(), 0n))).toBe('WrongValue')
    expect(await refusal(settle('a', `0x${'00'.repeat(32)}`))).toBe('EmptyRoot')
    await settle('a')
    expect(await refusal(settle('a'))).toBe('AlreadySettled')
    expect(await read('remaining', [id('a')])).toBe(total)
  })

  test('pays each leaf once: by anybody to its payee, or by the payee to wherever it says', async () => {
    await settle('b')
    const before = await balanceOf(elsewhere)
    await send('claim', [id('b'), receiptHash(2), elsewhere, 2_500n, proofOf(1)], { key: strangerKey })
    const to = '0x00000000000000000000000000000000000a0010'
    expect(await refusal(send('claimTo', [id('b'), receiptHash(1), 5_000n, to, proofOf(0)]))).toBe('InvalidProof')
    await send('claimTo', [id('b'), receiptHash(1), 5_000n, to, proofOf(0)], { key: strangerKey })
    expect([(await balanceOf(elsewhere)) - before, await balanceOf(to)]).toEqual([2_500n, 5_000n])
    const again = send('claim', [id('b'), receiptHash(1), payee, 5_000n, proofOf(0)])
    expect(await refusal(again)).toBe('AlreadyClaimed')
    expect(await read('remaining', [id('b')])).toBe(0n)
  })

  test('pays no other amount, payee, payout or batch, and no inner node of the tree for a leaf', async () => {
    await settle('c')
    const claim = (of: string, what: Hex, whom: Hex, amount: bigint, proof: readonly Hex[]) =>
      refusal(send('claim', [id(of), what, whom, amount, proof]))
    expect(await claim('c', receiptHash(1), payee, 5_001n, proofOf(0))).toBe('InvalidProof')
    expect(await claim('c', receiptHash(1), elsewhere, 5_000n, proofOf(0))).toBe('InvalidProof')
    expect(await claim('c', receiptHash(3), payee, 5_000n, proofOf(0))).toBe('InvalidProof')
    expect(await claim('never', receiptHash(1), payee, 5_000n, proofOf(0))).toBe('InvalidProof')
    expect(await claim('c', tree.root() as Hex, payee, 0n, [])).toBe('InvalidProof')
  })

  test('an underfunded batch pays until its own money is gone, and never out of another batch', async () => {
    await settle('d')
    await settle('poor', tree.root(), 3_000n)
    await send('claim', [id('poor'), receiptHash(2), elsewhere, 2_500n, proofOf(1)])
    expect(await refusal(send('claim', [id('poor'), receiptHash(1), payee, 5_000n, proofOf(0)]))).toBe('Underfunded')
    expect(await read('remaining', [id('d')])).toBe(total)
  })

  test('a payee that takes no money loses nothing: it claims to another address', async () => {
    // The contract itself takes no plain money.
    const leaf = { receiptHash: receiptHash(4), entryId: '', payee: address, amountWei: 10n }
    await settle('refuses', MerkleTree.of([payoutLeafOf(leaf)]).root(), 10n)
    expect(await refusal(send('claim', [id('refuses'), receiptHash(4), address, 10n, []]))).toBe('TransferFailed')
    expect(await read('claimed', [id('refuses'), receiptHash(4)])).toBe(false)
    expect(await read('remaining', [id('refuses')])).toBe(10n)
  })

  test('a batch of one contract is nothing to another', async () => {
    const other = await deployed()
    await settle('e')
    const claimed = send('claim', [id('e'), receiptHash(1), payee, 5_000n, proofOf(0)], { to: other })
    expect(await refusal(claimed)).toBe('InvalidProof')
  })

  test('the operator changes in two steps', async () => {
    const own = await deployed()
    const propose = (key: Hex) => send('proposeOperator', [payee], { key, to: own })
    expect(await refusal(propose(strangerKey))).toBe('NotOperator')
    await propose(operatorKey)
    expect(await read('operator', [], own)).toBe(operator)
    expect(await refusal(send('acceptOperator', [], { to: own }))).toBe('NotProposed')
    await send('acceptOperator', [], { key: strangerKey, to: own })
    expect(await read('operator', [], own)).toBe(payee)
    expect(await refusal(propose(operatorKey))).toBe('NotOperator')
  })

  test('what nobody claimed comes back after a year, and not a day before', async () => {
    await settle('old')
    await send('claim', [id('old'), receiptHash(2), elsewhere, 2_500n, proofOf(1)])
    expect(await refusal(send('reclaim', [id('old')]))).toBe('TooEarly')
    await anvil.rpc('evm_increaseTime', [365 * 86_400 - 3_600])
    await anvil.mine()
    expect(await refusal(send('reclaim', [id('old')]))).toBe('TooEarly')
    expect(await refusal(send('reclaim', [id('unknown')]))).toBe('TooEarly')
    await anvil.rpc('evm_increaseTime', [7_200])
    await anvil.mine()
    expect(await refusal(send('reclaim', [id('old')], { key: strangerKey }))).toBe('NotOperator')
    await send('reclaim', [id('old')])
    expect(await refusal(send('reclaim', [id('old')]))).toBe('NothingLeft')
    expect(await refusal(send('claim', [id('old'), receiptHash(1), payee, 5_000n, proofOf(0)]))).toBe('Underfunded')
  })
})
