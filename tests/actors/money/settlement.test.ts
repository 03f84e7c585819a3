import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type Hex, parseTransaction } from 'viem'
import { createEvmChain, type EvmChain } from '../../../src/actors/money/evm-chain.ts'
import { Problem } from '../../../src/errors.ts'
import { idHash, keccak256, toHex } from '../../../src/protocol/receipts/merkle.ts'
import { chainId, clients, deploy, operatorKey, startAnvil } from '../../support/money/anvil.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { SettlementRig } from '../../support/money/settlement-rig.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

let rig: SettlementRig
const anvil = await fixture(startAnvil({ mining: false }))

beforeEach(async () => {
  rig = await SettlementRig.make(anvil)
})
afterEach(async () => {
  await expectBooksBalance(rig.database.db)
  await rig.stop()
  await anvil.rpc('anvil_dropAllTransactions')
})

const gross = 1_000n
const share = 900n

/** A batch of `count` payouts, built and left to whoever runs. */
async function built(count = 2, change: Parameters<SettlementRig['gateway']>[0] = {}) {
  const settlement = await rig.gateway(change)
  const payouts = []
  for (let i = 0; i < count; i++) payouts.push(await rig.payout(gross))
  const { batch, totalAmountWei } = await settlement.build({ dryRun: false })
  if (batch === null) throw new Error('nothing was batched')
  return { settlement, payouts, batchId: batch.batchId, totalAmountWei }
}

/** Settled once, its money is there, and everything that hangs on it is final. */
async function expectPaidOnce(batchId: string, count = 2) {
  expect(await rig.onChain(batchId)).toMatchObject({ settled: 1, remaining: share * BigInt(count) })
  const rows = await rig.database
    .sql`select p.settlement_status s, r.status r, p.settled_at at, r.batch_id b from payouts p
    join receipts r using (receipt_hash) where p.batch_id = ${batchId}`
  expect(rows.map(({ s, r, b }) => [s, r, b])).toEqual(
    Array.from({ length: count }, () => ['finalized', 'finalized', batchId]),
  )
  expect(rows.every(({ at }) => at !== null)).toBe(true)
  const { completed_at: completed, finalized_at: finalized } = await rig.batch(batchId)
  expect(Date.parse(completed ?? '')).toBeGreaterThanOrEqual(Date.parse(finalized ?? ''))
}

const transactionOf = async (hash: string | null) =>
  anvil.rpc<{ nonce: Hex; blockNumber: Hex | null } | null>('eth_getTransactionByHash', [hash])

test('§14: created → submitting → submitted → completed, and each node claims once', async () => {
  const { settlement, batchId, payouts } = await built(3)
  await rig.until(batchId, 'submitted')
  const sent = await rig.batch(batchId)
  expect((await transactionOf(sent.submitted_tx_hash))?.blockNumber).toBeNull()
  await anvil.mine()
  await waitUntil('its block is stored', async () => (await rig.batch(batchId)).settlement_block_hash !== null)
  // In a block and not final: two more make it so.
  expect((await rig.batch(batchId)).status).toBe('submitted')
  await rig.complete(batchId)
  await expectPaidOnce(batchId, 3)
  const { reader } = clients(anvil)
  for (const proof of await settlement.proofs(batchId)) {
    await rig.claim(batchId, proof)
    expect(await reader.getBalance({ address: proof.payee as Hex })).toBe(share)
    await expect(rig.claim(batchId, proof)).rejects.toThrow()
  }
  expect((await rig.onChain(batchId)).remaining).toBe(0n)
  expect(payouts).toHaveLength(3)
  expect(settlement.ready()).toBe(true)
})

test('§36: a batch waits until the log has announced it for so long, whoever asks for it', async () => {
  const announceMs = 60_000
  const { settlement, batchId } = await built(1, { announceMs, leaseMs: 500 })
  const detailOf = (asked: Promise<unknown>) =>
    asked.then(
      () => null,
      (error: unknown) => (error instanceof Problem ? [error.code, error.message] : error),
    )
  const logged = (at: string) => rig.database.sql`insert into log_entries (entry_index, kind, hash, subject, created_at)
    values (0, 'batch', ${`0x${'ab'.repeat(32)}`}, ${batchId}, now() - ${at}::interval)
    on conflict (entry_index) do update set created_at = excluded.created_at`
  expect(await detailOf(settlement.submit(batchId))).toEqual([
    'invalid_state',
    expect.stringContaining('has not announced the batch yet'),
  ])
  await logged('20 seconds')
  expect(await detailOf(settlement.submit(batchId))).toEqual([
    'invalid_state',
    expect.stringMatching(/announces the batch until \d{4}-/),
  ])
  // Not by being let go from its hold, either: in the last seconds, so that it is soon over.
  await logged('53 seconds')
  expect((await settlement.retry(batchId)).status).toBe('created')
  expect((await rig.batch(batchId)).status).toBe('created')
  // By itself, once the time is over.
  await rig.until(batchId, 'submitted')
  const [entry] = await rig.database.sql<{ over: boolean }[]>`
    select now() - created_at >= interval '60 seconds' as over from log_entries`
  expect(entry?.over).toBe(true)
  // What was sent is looked after, whatever the setting says later.
  const later = await rig.gateway({ announceMs: 3_600_000 })
  await settlement.stop()
  await rig.complete(batchId)
  await later.stop()
})

describe('§14: batching', () => {
  test('a dry run changes nothing; a node without an address waits', async () => {
    const settlement = await rig.gateway({ chain: null })
    const { nodeId } = await rig.payout(gross)
    await rig.payout(gross)
    await rig.database.sql`update nodes set payout_address = null where node_id = ${nodeId}`
    await rig.database.sql`update payouts set payee = null, earned_payee = null where node_id = ${nodeId}`
    const dry = await settlement.build({ dryRun: true })
    expect(dry).toMatchObject({ batch: null, payoutCount: 1, totalAmountWei: share, withoutAddress: 1 })
    expect((await rig.database.sql`select 1 from payout_batches`).length).toBe(0)
    const made = await settlement.build({ dryRun: false })
    expect(made.merkleRoot).toBe(dry.merkleRoot)
    expect(await settlement.build({ dryRun: false })).toMatchObject({ batch: null, payoutCount: 0, withoutAddress: 1 })
  })

  test('one builder at a time, over all gateways: every payout is in one batch', async () => {
    const gateways = await Promise.all([rig.gateway({ chain: null }), rig.gateway({ chain: null })])
    for (let i = 0; i < 6; i++) await rig.payout(gross)
    const made = await Promise.all(Array.from({ length: 8 }, (_, at) => gateways[at % 2]?.build({ dryRun: false })))
    expect(made.map((each) => each?.payoutCount).sort()).toEqual([0, 0, 0, 0, 0, 0, 0, 6])
  })

  test('at most 1,000 leaves: the rest is in the next one', async () => {
    const settlement = await rig.gateway({ chain: null })
    const { nodeId } = await rig.payout(gross)
    const work = { customerId: rig.customerId, nodeId, amountWei: gross }
    for (let paid = 1; paid < 1_003; ) {
      const now = Math.min(100, 1_003 - paid)
      await Promise.all(Array.from({ length: now }, () => payFor(rig.database, work)))
      paid += now
    }
    const counts = []
    for (let at = 0; at < 3; at++) counts.push((await settlement.build({ dryRun: false })).payoutCount)
    expect(counts).toEqual([1_000, 3, 0])
  })

  test('by itself once a payout is old enough, and only then', async () => {
    await rig.payout(gross)
    let looks = 0
    const now = () => {
      looks++
      return Date.now()
    }
    await rig.gateway({ now })
    // It asks for the time twice for each look, and once more for each look at the chain.
    await waitUntil('several looks', () => looks > 12)
    expect((await rig.database.sql`select 1 from payout_batches`).length).toBe(0)
    await rig.database.sql`update payouts set created_at = now() - interval '2 hours'`
    await waitUntil('a batch', async () => (await rig.database.sql`select 1 from payout_batches`).length === 1)
  })

  test('without a chain it rests, and says so', async () => {
    const { settlement, batchId } = await built(1, { chain: null })
    expect(settlement.configured).toBe(false)
    expect(settlement.ready()).toBe(false)
    const refused = await settlement.submit(batchId).catch((error: unknown) => error)
    expect((refused as Problem).code).toBe('settlement_not_configured')
    expect((await rig.batch(batchId)).status).toBe('created')
  })

  test('§23: a held receipt is paid after its release, and never after its rejection', async () => {
    const settlement = await rig.gateway({ chain: null })
    const [one, two] = [await rig.payout(gross), await rig.payout(gross)]
    await rig.database.sql`update receipts set status = 'held'`
    await rig.database.sql`update payouts set held = true`
    expect((await settlement.build({ dryRun: true })).payoutCount).toBe(0)
    await settlement.decide(one.hash, 'accepted')
    await settlement.decide(two.hash, 'rejected')
    expect(await settlement.build({ dryRun: false })).toMatchObject({ payoutCount: 1, totalAmountWei: share })
    const again = await settlement.decide(two.hash, 'accepted').catch((error: unknown) => error)
    expect(again instanceof Problem && again.code).toBe('invalid_state')
    const unknown = await settlement.decide(toHex(idHash('x')), 'accepted').catch((error: unknown) => error)
    expect(unknown instanceof Problem && unknown.code).toBe('receipt_not_found')
  })
})

describe('§14: what chains do', () => {
  test('reorg: the same transaction is sent again, and it is paid once', async () => {
    const { batchId } = await built()
    await rig.until(batchId, 'submitted')
    const snapshot = await anvil.rpc<string>('evm_snapshot')
    await anvil.mine()
    await waitUntil('its block is stored', async () => (await rig.batch(batchId)).settlement_block_hash !== null)
    const before = await rig.batch(batchId)
    await anvil.rpc('evm_revert', [snapshot])
    await waitUntil('it is looked at anew', async () => (await rig.batch(batchId)).settlement_block_hash === null)
    await rig.complete(batchId)
    const after = await rig.batch(batchId)
    expect(after.submitted_tx_hash).toBe(before.submitted_tx_hash)
    expect(after.settlement_block_hash).not.toBe(before.settlement_block_hash)
    await expectPaidOnce(batchId)
  })

  test('lost on its way: the same transaction is sent again', async () => {
    let lost = 0
    rig.proxy.intercept = ({ method }) => (method === 'eth_sendRawTransaction' && lost++ < 2 ? { result: '0x' } : null)
    const { batchId } = await built()
    await rig.until(batchId, 'submitted')
    const { transactions } = await rig.batch(batchId)
    await waitUntil('sent for good', () => lost > 2)
    await rig.complete(batchId)
    expect((await rig.batch(batchId)).submitted_tx_hash).toBe(transactions[0]?.hash ?? '')
    await expectPaidOnce(batchId)
  })

  test('its nonce went to another transaction: a new one, and it is paid once', async () => {
    let losing = true
    rig.proxy.intercept = ({ method }) => (losing && method === 'eth_sendRawTransaction' ? { result: '0x' } : null)
    const { batchId } = await built()
    await rig.until(batchId, 'submitted')
    const before = await rig.batch(batchId)
    const { writer, account } = clients(anvil)
    await writer.sendTransaction({ to: account.address, value: 1n, chain: null, nonce: Number(before.tx_nonce) })
    await anvil.mine()
    await waitUntil(
      'signed anew',
      async () => (await rig.batch(batchId)).tx_nonce === String(Number(before.tx_nonce) + 1),
    )
    losing = false
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
    // Another nonce has no offer to outbid.
    const [offer] = before.transactions.map(({ raw }) => parseTransaction(raw).maxFeePerGas ?? 0n)
    const [next] = (await rig.batch(batchId)).transactions.map(({ raw }) => parseTransaction(raw).maxFeePerGas ?? 0n)
    expect(next).toBeLessThan(((offer ?? 0n) * 113n) / 100n)
  })

  /** The same chain, as settings that name a new contract make it. */
  async function movedChain() {
    const contract = await deploy(anvil)
    const chain = await createEvmChain({
      ...{ rpcUrl: rig.proxy.url, chainId, key: operatorKey, contract, confirmations: 2 },
    })
    return { chain, balance: () => clients(anvil).reader.getBalance({ address: contract }) }
  }

  test('another contract in the settings: a batch that its own one took is settled there, and paid once', async () => {
    const { settlement, batchId } = await built(2, { leaseMs: 1_000 })
    await rig.until(batchId, 'submitted')
    await settlement.stop()
    await anvil.mine()
    const { chain, balance } = await movedChain()
    await rig.gateway({ chain })
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
    expect(await balance()).toBe(0n)
  })

  test('another contract in the settings: a batch that its own one did not take waits for it', async () => {
    let losing = true
    rig.proxy.intercept = ({ method }) => (losing && method === 'eth_sendRawTransaction' ? { result: '0x' } : null)
    const { settlement, batchId } = await built(2, { leaseMs: 1_000 })
    await rig.until(batchId, 'submitted')
    await settlement.stop()
    losing = false
    const { writer, account } = clients(anvil)
    const nonce = Number((await rig.batch(batchId)).tx_nonce)
    await writer.sendTransaction({ to: account.address, value: 1n, chain: null, nonce })
    await anvil.mine()
    const { chain, balance } = await movedChain()
    const moved = await rig.gateway({ chain, leaseMs: 1_000 })
    await rig.untilError(batchId, 'another_contract')
    await moved.stop()
    expect(await balance()).toBe(0n)
    await rig.gateway()
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
  })

  test('another contract in the settings: a batch that was given up is signed anew for its own one', async () => {
    let [losing, refusing] = [true, false]
    rig.proxy.intercept = ({ method }) => {
      if (losing && method === 'eth_sendRawTransaction') return { result: '0x' }
      return refusing && method === 'eth_estimateGas' ? { error: { code: -32_000, message: 'busy' } } : null
    }
    const { settlement, batchId } = await built(2, { leaseMs: 1_000 })
    await rig.until(batchId, 'submitted')
    refusing = true
    const { writer, account } = clients(anvil)
    const nonce = Number((await rig.batch(batchId)).tx_nonce)
    await writer.sendTransaction({ to: account.address, value: 1n, chain: null, nonce })
    await anvil.mine()
    await rig.until(batchId, 'created')
    await settlement.stop()
    ;[losing, refusing] = [false, false]
    const { chain, balance } = await movedChain()
    await rig.gateway({ chain })
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
    expect(await balance()).toBe(0n)
  })

  test('nonce gap: a nonce that can never be reached is given up, and the old transaction pays nothing later', async () => {
    let lies = 1
    rig.proxy.intercept = async ({ method, params }) => {
      if (method !== 'eth_getTransactionCount' || lies-- <= 0) return null
      return { result: `0x${(Number(await anvil.rpc<string>(method, params)) + 2).toString(16)}` }
    }
    const { batchId } = await built()
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
    const { writer, account } = clients(anvil)
    for (let i = 0; i < 3; i++) {
      await writer.sendTransaction({ to: account.address, value: 1n, chain: null }).catch(() => null)
      await anvil.mine()
    }
    await expectPaidOnce(batchId)
  })

  test('a fee that no block takes is raised, with the same nonce', async () => {
    const { batchId } = await built()
    await rig.until(batchId, 'submitted')
    const before = await rig.batch(batchId)
    await anvil.rpc('anvil_setNextBlockBaseFeePerGas', [`0x${(10n ** 12n).toString(16)}`])
    await anvil.mine()
    await waitUntil('signed anew', async () => (await rig.batch(batchId)).transactions.length > 1)
    await rig.complete(batchId)
    const after = await rig.batch(batchId)
    expect(after.tx_nonce).toBe(before.tx_nonce)
    expect(after.submitted_tx_hash).not.toBe(before.submitted_tx_hash)
    await expectPaidOnce(batchId)
  })

  test('revert: back to created, and after three it is held until an operator tries again', async () => {
    const { settlement, batchId } = await built()
    await rig.until(batchId, 'submitted')
    const slot = rootSlot(batchId)
    await anvil.rpc('anvil_setStorageAt', [rig.contract, slot, `0x${'01'.repeat(32)}`])
    await anvil.mine()
    await waitUntil('held', async () => (await rig.batch(batchId)).held)
    expect(await rig.batch(batchId)).toMatchObject({ status: 'created', attempts: 3, last_error: 'another_root' })
    expect((await rig.database.sql`select distinct settlement_status s from payouts`).map(({ s }) => s)).toEqual([
      'batched',
    ])
    const refused = await settlement.submit(batchId).catch((error: unknown) => error)
    expect((refused as Problem).code).toBe('invalid_state')
    await anvil.rpc('anvil_setStorageAt', [rig.contract, slot, `0x${'00'.repeat(32)}`])
    await settlement.retry(batchId)
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
  })

  test('a chain without the tag `finalized`: final after the confirmations of the setting', async () => {
    rig.proxy.intercept = ({ method, params }) =>
      method === 'eth_getBlockByNumber' && params[0] === 'finalized'
        ? { error: { code: -32_602, message: 'unknown block tag' } }
        : null
    const { batchId } = await built()
    await rig.until(batchId, 'submitted')
    await anvil.mine()
    await waitUntil('its block is stored', async () => (await rig.batch(batchId)).settlement_block_hash !== null)
    await anvil.mine()
    const looks = () => rig.proxy.calls.filter((method) => method === 'eth_getTransactionReceipt').length
    const seen = looks()
    await waitUntil('one confirmation was seen', () => looks() > seen + 2)
    expect((await rig.batch(batchId)).status).toBe('submitted')
    await anvil.mine()
    await rig.until(batchId, 'completed')
    await expectPaidOnce(batchId)
  })

  test('another chain, or an address without code, is not ready', async () => {
    for (const [method, result] of [
      ['eth_chainId', '0x1'],
      ['eth_getCode', '0x'],
    ] as const) {
      rig.proxy.intercept = (call) => (call.method === method ? { result } : null)
      rig.warnings.length = 0
      const settlement = await rig.gateway()
      await waitUntil('it was looked at', () => rig.warnings.includes('chain_not_ready'))
      expect([method, settlement.ready()]).toEqual([method, false])
      rig.proxy.intercept = null
      await waitUntil('it is ready', () => settlement.ready())
      await settlement.stop()
    }
  })

  test('an RPC outage in every state only delays it', async () => {
    rig.proxy.down = true
    const { settlement, batchId } = await built()
    await rig.untilError(batchId, 'rpc_failed')
    expect((await rig.batch(batchId)).status).toBe('created')
    expect(settlement.ready()).toBe(false)
    let sending = false
    rig.proxy.intercept = ({ method }) => {
      if (method !== 'eth_sendRawTransaction' || sending) return null
      rig.proxy.down = true
      sending = true
      return { error: { code: -32_000, message: 'backend lost' } }
    }
    rig.proxy.down = false
    await waitUntil('the sending failed', async () => {
      const { status, last_error } = await rig.batch(batchId)
      return status === 'submitting' && last_error === 'rpc_failed'
    })
    rig.proxy.down = false
    await rig.until(batchId, 'submitted')
    rig.proxy.down = true
    await rig.untilError(batchId, 'rpc_failed')
    rig.proxy.down = false
    await rig.complete(batchId)
    await expectPaidOnce(batchId)
  })
})

/** The storage slot of `mapping(bytes32 => bytes32) root`, the contract's first: keccak256(key ‖ 0). */
function rootSlot(batchId: string): string {
  const words = new Uint8Array(64)
  words.set(idHash(batchId), 0)
  return toHex(keccak256(words))
}

describe('crashes', () => {
  /** Of the one that dies; who goes on has a lease that no busy machine outlasts. */
  const shortLeaseMs = 250
  const steps = ['sign', 'send', 'look'] as const
  const moments = ['before', 'after'] as const
  /** A gateway that stops for ever at this moment of this step: what `kill -9` leaves behind. */
  function dyingChain(
    chain: EvmChain,
    step: (typeof steps)[number],
    moment: (typeof moments)[number],
    died: () => void,
  ): EvmChain {
    const never = new Promise<never>(() => {})
    const dying = { ...bound(chain) }
    dying[step] = (async (...args: [never, never]) => {
      if (moment === 'after') await chain[step](...args)
      died()
      return never
    }) as never
    return dying
  }
  const bound = (chain: EvmChain): { -readonly [K in keyof EvmChain]: EvmChain[K] } => ({
    fault: () => chain.fault(),
    sign: (batch, nonces) => chain.sign(batch, nonces),
    send: (batch) => chain.send(batch),
    look: (batch, nonces) => chain.look(batch, nonces),
  })

  for (const step of steps) {
    for (const moment of moments) {
      test(`${moment} ${step}: another gateway goes on, and it is paid once`, async () => {
        let dead = false
        const chain = dyingChain(rig.chain, step, moment, () => {
          dead = true
        })
        const { batchId } = await built(2, { chain, leaseMs: shortLeaseMs })
        await waitUntil('it died', () => dead)
        await rig.gateway()
        await rig.complete(batchId)
        await expectPaidOnce(batchId)
      })
    }
  }

  test('two gateways at once: paid once', async () => {
    await rig.gateway()
    const { batchId } = await built(4)
    await rig.complete(batchId)
    await expectPaidOnce(batchId, 4)
  })

  test('a crash between a sending and its record: the same transaction', async () => {
    let dead = false
    const { batchId } = await built(2, {
      chain: dyingChain(rig.chain, 'send', 'after', () => {
        dead = true
      }),
      leaseMs: shortLeaseMs,
    })
    await waitUntil('it died', () => dead)
    const [{ hash } = { hash: '' }] = (await rig.batch(batchId)).transactions
    expect((await rig.batch(batchId)).status).toBe('submitting')
    await rig.gateway()
    await rig.complete(batchId)
    expect((await rig.batch(batchId)).submitted_tx_hash).toBe(hash)
  })
})
