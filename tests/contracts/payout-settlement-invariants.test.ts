import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { BaseError, ContractFunctionRevertedError, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { MerkleTree, payoutLeafOf } from '../../src/protocol/receipts/merkle.ts'
import { clients, operatorKey, startAnvil, strangerKey } from '../support/money/anvil.ts'
import { fixture } from '../support/run/fixture.ts'

const { abi, bytecode } = JSON.parse(
  readFileSync(join(import.meta.dir, '../../contracts/PayoutSettlementV2.json'), 'utf8'),
) as { readonly abi: never; readonly bytecode: Hex }

const anvil = await fixture(startAnvil())

const keys = [operatorKey, strangerKey] as const
const accounts = keys.map((key) => privateKeyToAccount(key).address)
/** Addresses that send nothing themselves, so that what they have is what they were paid. */
const payees = [1, 2, 3].map((at) => `0x${'00'.repeat(16)}0bad000${at}` as Hex)
const yearSeconds = 365 * 86_400
const bytes32 = (at: number) => `0x${at.toString(16).padStart(64, '0')}` as Hex

interface Leaf {
  readonly payoutId: Hex
  readonly payee: Hex
  readonly amount: bigint
}
interface Batch {
  readonly leaves: readonly Leaf[]
  readonly total: bigint
  remaining: bigint
  /** On the chain's clock, s. */
  readonly settledAt: number
  readonly claimed: Set<Hex>
}

/** What the contract is to do, in as few words as possible. */
class Model {
  operator = accounts[0] as Hex
  proposed: Hex | null = null
  readonly batches = new Map<number, Batch>()
  readonly paid = new Map<Hex, bigint>()

  held(): bigint {
    return [...this.batches.values()].reduce((sum, { remaining }) => sum + remaining, 0n)
  }
  pay(to: Hex, amount: bigint): void {
    this.paid.set(to, (this.paid.get(to) ?? 0n) + amount)
  }
}

type Act =
  | {
      readonly kind: 'settle'
      readonly batch: number
      readonly by: number
      readonly amounts: readonly number[]
      readonly short: number
      readonly sent: number
    }
  | {
      readonly kind: 'claim'
      readonly batch: number
      readonly from: number
      readonly leaf: number
      readonly more: number
      readonly by: number
    }
  | {
      readonly kind: 'claimTo'
      readonly batch: number
      readonly leaf: number
      readonly by: number
      readonly to: number
    }
  | { readonly kind: 'reclaim'; readonly batch: number; readonly by: number }
  | { readonly kind: 'wait'; readonly share: number }
  | { readonly kind: 'propose'; readonly by: number; readonly whom: number }
  | { readonly kind: 'accept'; readonly by: number }

const who = fc.integer({ min: 0, max: keys.length - 1 })
const which = fc.integer({ min: 1, max: 3 })
const mostly = (value: number, ...others: number[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(value) }, { weight: 1, arbitrary: fc.constantFrom(...others) })
const acts: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      batch: which,
      by: mostly(0, 1),
      amounts: fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 5 }),
      // So much less than the leaves sum to, and so much more or less than the total is sent.
      short: mostly(0, 1, 500),
      sent: mostly(0, -1, 1),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      batch: which,
      // A leaf of this batch, with which the claim is made in the other.
      from: which,
      leaf: fc.integer({ min: 0, max: 4 }),
      more: mostly(0, 1, -1),
      by: who,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('claimTo' as const),
      batch: which,
      leaf: fc.integer({ min: 0, max: 4 }),
      by: who,
      to: fc.integer({ min: -1, max: 2 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('reclaim' as const), batch: which, by: mostly(0, 1) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), share: fc.constantFrom(0.4, 0.7, 1) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('propose' as const), by: who, whom: who }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('accept' as const), by: who }) },
)

const nowOnChain = async () =>
  Number((await anvil.rpc<{ timestamp: Hex }>('eth_getBlockByNumber', ['latest', false])).timestamp)

async function deployed(): Promise<Hex> {
  const { writer, reader } = clients(anvil)
  const hash = await writer.deployContract({ abi, bytecode, args: [accounts[0]] as never, chain: null })
  return (await reader.waitForTransactionReceipt({ hash, pollingInterval: 5 })).contractAddress as Hex
}

/** The name of the contract's refusal; 'done': there was none. */
async function call(to: Hex, by: number, functionName: string, args: readonly unknown[], value = 0n): Promise<string> {
  const { reader, writer, account } = clients(anvil, keys[by])
  const request = { address: to, abi, functionName, args, value, account } as never
  try {
    await reader.simulateContract(request)
  } catch (error) {
    const cause = error instanceof BaseError ? error.walk((one) => one instanceof ContractFunctionRevertedError) : null
    if (cause instanceof ContractFunctionRevertedError) return cause.data?.errorName ?? 'reverted'
    throw error
  }
  const hash = await writer.writeContract({ ...(request as object), chain: null } as never)
  const { status } = await reader.waitForTransactionReceipt({ hash, pollingInterval: 5 })
  return status === 'success' ? 'done' : 'reverted'
}

const treeOf = (leaves: readonly Leaf[]) => MerkleTree.of(leaves.map(leafOf))
const leafOf = ({ payoutId, payee, amount }: Leaf) =>
  payoutLeafOf({ receiptHash: payoutId, entryId: '', payee, amountWei: amount })

/** Leaves of a batch: payees, an account that can send, and the operator itself. */
const leavesOf = (batch: number, amounts: readonly number[]): readonly Leaf[] =>
  amounts.map((amount, at) => ({
    payoutId: bytes32(batch * 100 + at),
    payee: [...payees, ...accounts][at] as Hex,
    amount: BigInt(amount),
  }))

async function settle(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'settle' }>,
): Promise<readonly [string, string]> {
  const leaves = leavesOf(act.batch, act.amounts)
  const sum = leaves.reduce((all, { amount }) => all + amount, 0n)
  const total = sum > BigInt(act.short) ? sum - BigInt(act.short) : sum
  const value = total + BigInt(act.sent)
  const expected =
    accounts[act.by] !== model.operator
      ? 'NotOperator'
      : model.batches.has(act.batch)
        ? 'AlreadySettled'
        : value === total && total > 0n
          ? 'done'
          : 'WrongValue'
  const args = [bytes32(act.batch), treeOf(leaves).root(), total, BigInt(leaves.length)]
  const got = await call(address, act.by, 'settleBatch', args, value < 0n ? 0n : value)
  if (got === 'done')
    model.batches.set(act.batch, { leaves, total, remaining: total, settledAt: await nowOnChain(), claimed: new Set() })
  return [got, expected]
}

/** What a claim of this leaf, with its own proof, is to be in this batch. */
function claimed(batch: Batch | undefined, leaf: Leaf, isOwn: boolean): string {
  if (batch?.claimed.has(leaf.payoutId)) return 'AlreadyClaimed'
  if (batch === undefined || !isOwn) return 'InvalidProof'
  return batch.remaining < leaf.amount ? 'Underfunded' : 'done'
}

function take(model: Model, batch: Batch | undefined, leaf: Leaf, to: Hex): void {
  if (batch === undefined) throw new Error('nothing was settled')
  batch.claimed.add(leaf.payoutId)
  batch.remaining -= leaf.amount
  model.pay(to, leaf.amount)
}

async function claim(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'claim' }>,
): Promise<readonly [string, string]> {
  const [batch, from] = [model.batches.get(act.batch), model.batches.get(act.from)]
  const own = (from?.leaves ?? leavesOf(act.from, [1]))[act.leaf % (from?.leaves.length ?? 1)] as Leaf
  const proof = treeOf(from?.leaves ?? [own]).proof(leafOf(own)) ?? []
  const asked = { ...own, amount: own.amount + BigInt(act.more) }
  const expected = claimed(batch, asked, act.batch === act.from && act.more === 0)
  const args = [bytes32(act.batch), own.payoutId, own.payee, asked.amount, proof]
  const got = await call(address, act.by, 'claim', args)
  if (got === 'done') take(model, batch, own, own.payee)
  return [got, expected]
}

async function claimTo(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'claimTo' }>,
): Promise<readonly [string, string]> {
  const batch = model.batches.get(act.batch)
  const leaves = batch?.leaves ?? leavesOf(act.batch, [1])
  const leaf = leaves[act.leaf % leaves.length] as Leaf
  const to = act.to < 0 ? (`0x${'00'.repeat(20)}` as Hex) : (payees[act.to] as Hex)
  const expected = act.to < 0 ? 'NoAddress' : claimed(batch, leaf, leaf.payee === accounts[act.by])
  const args = [bytes32(act.batch), leaf.payoutId, leaf.amount, to, treeOf(leaves).proof(leafOf(leaf)) ?? []]
  const got = await call(address, act.by, 'claimTo', args)
  if (got === 'done') take(model, batch, leaf, to)
  return [got, expected]
}

async function reclaim(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'reclaim' }>,
): Promise<readonly [string, string]> {
  const batch = model.batches.get(act.batch)
  // A call is made in the next block, which is a second later at the most.
  const isLate = batch !== undefined && (await nowOnChain()) >= batch.settledAt + yearSeconds
  const byOperator = accounts[act.by] === model.operator
  const expected = !byOperator ? 'NotOperator' : !isLate ? 'TooEarly' : batch.remaining === 0n ? 'NothingLeft' : 'done'
  const got = await call(address, act.by, 'reclaim', [bytes32(act.batch)])
  if (got === 'done' && batch !== undefined) {
    model.pay(model.operator, batch.remaining)
    batch.remaining = 0n
  }
  return [got, expected]
}

async function propose(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'propose' }>,
): Promise<readonly [string, string]> {
  const expected = accounts[act.by] === model.operator ? 'done' : 'NotOperator'
  const got = await call(address, act.by, 'proposeOperator', [accounts[act.whom]])
  if (got === 'done') model.proposed = accounts[act.whom] as Hex
  return [got, expected]
}

async function accept(
  address: Hex,
  model: Model,
  act: Extract<Act, { kind: 'accept' }>,
): Promise<readonly [string, string]> {
  const expected = accounts[act.by] === model.proposed ? 'done' : 'NotProposed'
  const got = await call(address, act.by, 'acceptOperator', [])
  if (got === 'done') {
    model.operator = accounts[act.by] as Hex
    model.proposed = null
  }
  return [got, expected]
}

async function wait(act: Extract<Act, { kind: 'wait' }>): Promise<readonly [string, string]> {
  await anvil.rpc('evm_increaseTime', [Math.ceil(yearSeconds * act.share)])
  await anvil.mine()
  return ['done', 'done']
}

function perform(address: Hex, model: Model, act: Act): Promise<readonly [string, string]> {
  switch (act.kind) {
    case 'settle':
      return settle(address, model, act)
    case 'claim':
      return claim(address, model, act)
    case 'claimTo':
      return claimTo(address, model, act)
    case 'reclaim':
      return reclaim(address, model, act)
    case 'propose':
      return propose(address, model, act)
    case 'accept':
      return accept(address, model, act)
    case 'wait':
      return wait(act)
  }
}

/** That all money is where the model has it. `before`: what the payees had when the contract was made. */
async function compare(address: Hex, model: Model, before: ReadonlyMap<Hex, bigint>): Promise<void> {
  const { reader } = clients(anvil)
  const read = (functionName: string, args: readonly unknown[] = []) =>
    reader.readContract({ address, abi, functionName, args } as never)
  expect(await reader.getBalance({ address })).toBe(model.held())
  expect(String(await read('operator')).toLowerCase()).toBe(model.operator.toLowerCase())
  for (const [at, { leaves, remaining, claimed: taken, total }] of model.batches) {
    expect(await read('root', [bytes32(at)])).toBe(treeOf(leaves).root() as never)
    expect(await read('remaining', [bytes32(at)])).toBe(remaining as never)
    expect(remaining >= 0n && remaining <= total).toBe(true)
    for (const { payoutId } of leaves)
      expect(await read('claimed', [bytes32(at), payoutId])).toBe(taken.has(payoutId) as never)
  }
  for (const one of payees) {
    const paid = (await reader.getBalance({ address: one })) - (before.get(one) ?? 0n)
    expect([one, paid]).toEqual([one, model.paid.get(one) ?? 0n])
  }
}

test('whatever is called in whatever order, the contract does what the model does, and holds exactly what is left', async () => {
  const outcomes = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(fc.array(acts, { minLength: 10, maxLength: 30 }), async (all) => {
      const [address, model] = [await deployed(), new Model()]
      const { reader } = clients(anvil)
      const before = new Map(
        await Promise.all(payees.map(async (one) => [one, await reader.getBalance({ address: one })] as const)),
      )
      for (const [at, act] of all.entries()) {
        const [got, expected] = await perform(address, model, act)
        outcomes.set(`${act.kind} ${got}`, (outcomes.get(`${act.kind} ${got}`) ?? 0) + 1)
        expect([at, act, got]).toEqual([at, act, expected])
      }
      await compare(address, model, before)
    }),
    { numRuns: 40, seed: 20_261_126, endOnFailure: true },
  )
  // Each way out was taken: a sequence that only ever fails would prove nothing.
  const reached = [...outcomes.keys()]
  for (const one of ['settle done', 'claim done', 'claimTo done', 'reclaim done', 'accept done', 'claim Underfunded'])
    expect(reached).toContain(one)
  for (const one of [
    'settle WrongValue',
    'settle AlreadySettled',
    'claim AlreadyClaimed',
    'claim InvalidProof',
    'reclaim TooEarly',
  ])
    expect(reached).toContain(one)
})

test('an operator that puts a leaf of its own into a root has that money back at once, and no more than that', async () => {
  const address = await deployed()
  const operator = accounts[0] as Hex
  const leaves = [...leavesOf(1, [700]), { payoutId: bytes32(999), payee: operator, amount: 300n }]
  const root = treeOf(leaves).root()
  expect(await call(address, 0, 'settleBatch', [bytes32(1), root, 1_000n, 2n], 1_000n)).toBe('done')
  const own = leaves[1] as Leaf
  const args = [bytes32(1), own.payoutId, own.amount, payees[2], treeOf(leaves).proof(leafOf(own))]
  expect(await call(address, 0, 'claimTo', args)).toBe('done')
  expect(await call(address, 0, 'reclaim', [bytes32(1)])).toBe('TooEarly')
  expect(await clients(anvil).reader.getBalance({ address })).toBe(700n)
})
