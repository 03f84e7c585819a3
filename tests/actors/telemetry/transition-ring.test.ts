import { expect, test } from 'bun:test'
import { fromPromise } from 'xstate'
import { runToRest } from '../../../src/actors/durable/run-to-rest.ts'
import { createInspector, type Inspector } from '../../../src/actors/telemetry/inspect.ts'
import { transitionsKeptMax } from '../../../src/actors/telemetry/transition-ring.ts'
import { createLog } from '../../../src/log.ts'
import {
  type BatchFacts,
  type LookResult,
  payoutBatchMachine,
  type SendResult,
  type SignResult,
  type WriteResult,
} from '../../../src/machines/charts/payout-batch.ts'

const log = createLog('silent', () => {})
const included = { hash: '0x1', blockNumber: '1', blockHash: '0x2' }
const transaction = { hash: '0x1', raw: '0x00' }

/** Brings a batch on by one step of its chart, as the settlement does; `look`: what the chain says of it. */
async function step(inspector: Inspector, id: string, from: string, look: LookResult = { kind: 'pending' }) {
  const machine = payoutBatchMachine.provide({
    actors: {
      sign: fromPromise<SignResult, BatchFacts>(async () => ({ kind: 'signed', nonce: 0, transaction })),
      send: fromPromise<SendResult, BatchFacts>(async () => ({ kind: 'sent' })),
      look: fromPromise(async () => look),
      write: fromPromise(async (): Promise<WriteResult> => 'written'),
    },
  })
  const facts = { batchId: id, merkleRoot: '0x0', totalAmountWei: 1n, payoutCount: 1, txNonce: null, leaseId: 'wrk_a' }
  const context = {
    ...facts,
    transactions: [],
    settlementBlockHash: null,
    attempts: 0,
    restsIn: from as 'created',
    record: { kind: 'postponed' as const, code: null },
  }
  const options = { id, log, inspect: inspector.inspect, signal: new AbortController().signal }
  await runToRest(machine, { value: from, context }, { type: 'claimed' }, options)
}
const statesOf = (inspector: Inspector, of: string) =>
  inspector
    .recent('payout-batch')
    .filter(({ id }) => id === of)
    .map(({ to }) => to)

test('§23: what a batch went through stays in its history, however often it looks at the chain', async () => {
  const inspector = createInspector(log)
  const told: string[] = []
  inspector.subscribe(({ to }) => told.push(to))
  for (const state of ['created', 'submitting']) await step(inspector, 'bat_a', state)
  const looks = Math.ceil(transitionsKeptMax / 3) + 1
  for (let at = 0; at < looks; at++) await step(inspector, 'bat_a', 'submitted')
  await step(inspector, 'bat_a', 'submitted', { kind: 'final', ...included })
  const sent = ['created', 'signing', 'recording', 'submitting', 'sending', 'recording', 'submitted']
  const looked = ['looking', 'recording', 'submitted']
  expect(statesOf(inspector, 'bat_a')).toEqual([...sent, ...looked, 'looking', 'recording', 'completed'])
  // Whoever looks on hears of each; a batch that is taken up where it rested has not moved.
  expect(told.filter((state) => state === 'looking')).toHaveLength(looks + 1)
  expect(inspector.counts().get('payout-batch')?.entered.get('submitted')).toBe(looks + 1)
})

test('§23: another way round is kept, and the ways of others between them', async () => {
  const inspector = createInspector(log)
  for (let at = 0; at < 3; at++)
    for (const id of ['bat_a', 'bat_b']) await step(inspector, id, 'submitted', { kind: 'included', ...included })
  await step(inspector, 'bat_a', 'submitted', { kind: 'underpriced' })
  await step(inspector, 'bat_a', 'submitting')
  const looked = ['submitted', 'looking', 'recording', 'submitted']
  expect(statesOf(inspector, 'bat_b')).toEqual(looked)
  const again = ['looking', 'signing', 'recording', 'submitting', 'sending', 'recording', 'submitted']
  expect(statesOf(inspector, 'bat_a')).toEqual([...looked, ...again])
})
