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

describe('§36: what the operator can and cannot do with leaves at the end of the year', () => {
  const year = 365 * 86_400
  const gas = 200_000n
  /** The payee's, the operator's own, and money that no leaf pays for. */
  const leaves = [
    { receiptHash: receiptHash(5), entryId: 'pay_5', payee, amountWei: 5_000n },
    { receiptHash: receiptHash(6), entryId: 'pay_6', payee: operator, amountWei: 2_000n },
  ].map(payoutLeafOf)
  const own = MerkleTree.of(leaves)
  const proof = (at: number) => [...(own.proof(leaves[at] as never) ?? [])] as Hex[]
  const surplus = 500n
  const money = 7_500n
  const claimPayees = (batch: string) =>
    ['claim', [id(batch), receiptHash(5), payee, 5_000n, proof(0)], strangerKey] as const
  const claimOwn = (batch: string) =>
    ['claim', [id(batch), receiptHash(6), operator, 2_000n, proof(1)], operatorKey] as const
  const reclaim = (batch: string) => ['reclaim', [id(batch)], operatorKey] as const

  /** In a block of this very second, without asking first whether it would succeed. */
  async function sentAt(second: bigint, [functionName, args, key]: readonly [string, readonly unknown[], Hex]) {
    const { reader, writer, account } = clients(anvil, key)
    await anvil.rpc('evm_setNextBlockTimestamp', [Number(second)])
    const call = { address, abi: compiled.abi, functionName, args, account, gas, chain: null }
    const hash = await writer.writeContract(call as never)
    const { status, blockNumber } = await reader.waitForTransactionReceipt({ hash, pollingInterval: 20 })
    expect((await reader.getBlock({ blockNumber })).timestamp).toBe(second)
    return status
  }
  /** The second from which the operator may take what is left. */
  async function settled(batch: string): Promise<bigint> {
    await settle(batch, own.root(), money)
    return ((await read('settledAt', [id(batch)])) as bigint) + BigInt(year)
  }

  test('a leaf of its own is claimed at once, and what no leaf pays for by nobody', async () => {
    const end = await settled('own')
    const { timestamp } = await clients(anvil).reader.getBlock()
    expect(await sentAt(timestamp + 1n, claimOwn('own'))).toBe('success')
    expect(await sentAt(timestamp + 2n, claimPayees('own'))).toBe('success')
    expect(await read('remaining', [id('own')])).toBe(surplus)
    expect(await refusal(send('claim', [id('own'), receiptHash(7), operator, surplus, []]))).toBe('InvalidProof')
    expect(await sentAt(end - 1n, reclaim('own'))).toBe('reverted')
    expect(await read('remaining', [id('own')])).toBe(surplus)
    expect(await sentAt(end, reclaim('own'))).toBe('success')
    expect(await read('remaining', [id('own')])).toBe(0n)
  })

  test('a payee claims in the last second of the year, and the operator gets only the rest', async () => {
    const end = await settled('last')
    expect(await sentAt(end - 2n, reclaim('last'))).toBe('reverted')
    expect(await sentAt(end - 1n, claimPayees('last'))).toBe('success')
    const before = await balanceOf(address)
    expect(await sentAt(end, reclaim('last'))).toBe('success')
    expect(before - (await balanceOf(address))).toBe(money - 5_000n)
    // Its own leaf went with the rest: it is not paid twice.
    expect(await sentAt(end + 1n, claimOwn('last'))).toBe('reverted')
  })

  test('a late payee still claims while the operator has taken nothing, and gets nothing afterwards', async () => {
    const [late, lost] = [await settled('late'), await settled('lost')]
    expect(await sentAt(lost + 86_400n, claimPayees('late'))).toBe('success')
    expect(await sentAt(lost + 86_401n, reclaim('lost'))).toBe('success')
    expect(await sentAt(lost + 86_402n, claimPayees('lost'))).toBe('reverted')
    expect(await read('claimed', [id('lost'), receiptHash(5)])).toBe(false)
    // Of one batch nothing was taken for the other.
    expect(late).toBeLessThanOrEqual(lost)
    expect(await read('remaining', [id('late')])).toBe(money - 5_000n)
  })
})
