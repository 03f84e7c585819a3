import { expect, test } from 'bun:test'
import { createActor } from 'xstate'
import { payoutBatches } from '../../../src/db/schema/settlement.ts'
import {
  type BatchContext,
  leadsTo,
  payoutBatchMachine,
  restingStates,
} from '../../../src/machines/charts/payout-batch.ts'
import { batchDue, pendingForBatch } from '../../../src/machines/rules/payout-batching.ts'
import { batchStatuses } from '../../../src/protocol/wire/money/money.ts'

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
