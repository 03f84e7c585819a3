import { expect, test } from 'bun:test'
import { createActor, fromPromise } from 'xstate'
import { payoutBatches } from '../../../src/db/schema/settlement.ts'
import {
  type BatchContext,
  type BatchFacts,
  type BatchRecord,
  type LookResult,
  leadsTo,
  payoutBatchMachine,
  restingStates,
  type SignResult,
  type WriteResult,
} from '../../../src/machines/charts/payout-batch.ts'
import { batchDue, batchesAttemptsMax, pendingForBatch } from '../../../src/machines/rules/payout-batching.ts'
import { batchStatuses } from '../../../src/protocol/wire/money/money.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

test('every resting state is a value of the status column, and every other state is working', () => {
  expect<readonly string[]>(payoutBatches.status.enumValues).toEqual([...restingStates])
  expect<readonly string[]>(batchStatuses).toEqual([...restingStates])
  const working = Object.entries(payoutBatchMachine.states)
    .filter(([, state]) => state.tags.includes('working'))
    .map(([name]) => name)
  const all = Object.keys(payoutBatchMachine.states)
  expect(all.filter((name) => !working.includes(name))).toEqual([...restingStates])
  for (const state of Object.values(leadsTo)) expect(state === null || restingStates.includes(state)).toBe(true)
})

test('without its effects the chart fails instead of doing nothing', async () => {
  const context = { batchId: 'bat_1', restsIn: 'created', record: { kind: 'postponed', code: null } } as BatchContext
  const failed = Promise.withResolvers<unknown>()
  const actor = createActor(payoutBatchMachine, { input: context })
  actor.subscribe({ error: failed.resolve })
  actor.start()
  actor.send({ type: 'claimed' })
  expect(String(await failed.promise)).toContain('not provided')
})

/** One claim of a batch until it rests; `writes`: what each write comes to, in their order. */
async function claim(from: 'created' | 'submitted', look: LookResult, attempts: number, writes: WriteResult[]) {
  const records: BatchRecord[] = []
  const transaction = { hash: '0x1', raw: '0x00' }
  const machine = payoutBatchMachine.provide({
    actors: {
      sign: fromPromise<SignResult, BatchFacts>(async () => ({ kind: 'signed', nonce: 0, transaction })),
      look: fromPromise(async () => look),
      write: fromPromise<WriteResult, { readonly record: BatchRecord; readonly facts: BatchFacts }>(
        async ({ input }) => {
          records.push(input.record)
          return writes.shift() ?? 'written'
        },
      ),
    },
  })
  const facts = { batchId: 'bat_1', merkleRoot: '0x0', totalAmountWei: 1n, payoutCount: 1, txNonce: null, attempts }
  const rests = { restsIn: from, record: { kind: 'postponed', code: null } } as const
  const context = { ...facts, ...rests, leaseId: 'wrk_a', transactions: [], settlementBlockHash: null }
  const actor = createActor(machine, { snapshot: machine.resolveState({ value: from, context }), input: context })
  actor.start()
  actor.send({ type: 'claimed' })
  await waitUntil('it rests', () => !actor.getSnapshot().hasTag('working'))
  return { records, state: String(actor.getSnapshot().value) }
}

test('§14: a transaction that reverts is made anew, and the last time the batch is held for an operator', async () => {
  const reverted = { kind: 'reverted', code: 'BatchTooLate' } as const
  const again = await claim('submitted', reverted, batchesAttemptsMax - 2, [])
  expect(again).toEqual({ records: [reverted], state: 'created' })
  const held = await claim('submitted', reverted, batchesAttemptsMax - 1, [])
  expect(held).toEqual({ records: [{ kind: 'held', code: 'BatchTooLate' }], state: 'created' })
})

test('§14: a nonce that another batch took meanwhile postpones the batch where it came from', async () => {
  const postponed = { kind: 'postponed', code: 'nonce_taken' }
  const created = await claim('created', { kind: 'pending' }, 0, ['nonce_taken'])
  expect(created).toMatchObject({ records: [{ kind: 'signed' }, postponed], state: 'created' })
  const submitted = await claim('submitted', { kind: 'underpriced' }, 0, ['nonce_taken'])
  expect(submitted).toMatchObject({ records: [{ kind: 'signed' }, postponed], state: 'submitted' })
})

test('§14: under a lease that was lost nothing has moved', async () => {
  const lost = await claim('submitted', { kind: 'final', hash: '0x1', blockNumber: '1', blockHash: '0x2' }, 0, [
    'lease_lost',
  ])
  expect(lost.state).toBe('submitted')
})

test('§14: a batch is due by age, by number, and never below the least amount', () => {
  const at = { nowMs: 10_000, ageMs: 5_000, minWei: 0n }
  const payout = (createdMs: number) => ({ createdAt: new Date(createdMs), amountWei: 1n })
  expect(batchDue([], at)).toBe(false)
  expect(batchDue([payout(5_001)], at)).toBe(false)
  expect(batchDue([payout(5_000), payout(9_000)], at)).toBe(true)
  const many = Array.from({ length: pendingForBatch }, () => payout(10_000))
  expect([batchDue(many.slice(1), at), batchDue(many, at)]).toEqual([false, true])
  expect(batchDue(many, { ...at, minWei: 501n })).toBe(false)
})
