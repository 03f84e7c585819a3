import { expect, test } from 'bun:test'
import { createActor, fromPromise } from 'xstate'
import {
  type DeliveryOutcome,
  type DeliveryVerdict,
  judgeDelivery,
  webhookDeliveryMachine,
} from '../../../src/machines/charts/webhook-delivery.ts'
import { webhookStatuses } from '../../../src/protocol/wire/inference/job.ts'
import { restingStates } from '../../support/run/resting-states.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

test('the resting states are the values of the status column', () => {
  expect(restingStates(webhookDeliveryMachine).sort()).toEqual([...webhookStatuses].sort())
})

async function run(outcome: DeliveryOutcome | Error, recorded: boolean | Error = true, attempts = 1) {
  const verdicts: DeliveryVerdict[] = []
  const path: string[] = []
  const machine = webhookDeliveryMachine.provide({
    actors: {
      post: fromPromise(async () => {
        if (outcome instanceof Error) throw outcome
        return outcome
      }),
      record: fromPromise(async ({ input }) => {
        verdicts.push(input)
        if (recorded instanceof Error) throw recorded
        return recorded
      }),
    },
  })
  const context = { attempts, random: 0.5, verdict: null }
  const actor = createActor(machine, {
    snapshot: machine.resolveState({ value: 'delivering', context }),
    input: context,
  })
  actor.start()
  actor.subscribe(({ value }) => path.push(String(value)))
  actor.send({ type: 'claimed' })
  await waitUntil('it rests', () => !actor.getSnapshot().hasTag('working'))
  return { path, verdicts }
}

test('work, record, move: the new state comes only after the write', async () => {
  expect(await run({ kind: 'delivered' })).toEqual({
    path: ['posting', 'recording', 'delivered'],
    verdicts: [{ status: 'delivered' }],
  })
  expect((await run({ kind: 'stopped', error: 'gone' })).path.at(-1)).toBe('disabled')
  const failed = { kind: 'failed', error: 'http_500', retryAfterMs: null } as const
  expect((await run(failed)).path.at(-1)).toBe('retry_scheduled')
  expect((await run(failed, true, 10)).path.at(-1)).toBe('failed')
})

test('a lost lease, a failed write and a defect leave the row as it was claimed', async () => {
  expect((await run({ kind: 'delivered' }, false)).path.at(-1)).toBe('delivering')
  expect((await run({ kind: 'delivered' }, new Error('database away'))).path.at(-1)).toBe('delivering')
  expect(await run(new Error('defect'))).toEqual({ path: ['posting', 'delivering'], verdicts: [] })
})

test('§11: what an attempt makes of the row', () => {
  const failed = { kind: 'failed', error: 'timeout', retryAfterMs: 60_000 } as const
  expect(judgeDelivery(failed, 1, 0.5)).toEqual({ status: 'retry_scheduled', error: 'timeout', delayMs: 60_000 })
  expect(judgeDelivery(failed, 9, 0)).toEqual({ status: 'retry_scheduled', error: 'timeout', delayMs: 77_760_000 })
  expect(judgeDelivery(failed, 10, 0.5)).toEqual({ status: 'failed', error: 'timeout' })
})
