import { expect, test } from 'bun:test'
import { createActor, fromPromise } from 'xstate'
import {
  type AttendOutcome,
  type JobVerdict,
  privateJobMachine,
  type SubmitOutcome,
} from '../../../src/machines/charts/private-job.ts'
import { jobStatuses } from '../../../src/protocol/wire/inference/job.ts'
import { restingStates } from '../../support/run/resting-states.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

test('the resting states are the values of the status column', () => {
  expect(restingStates(privateJobMachine).sort()).toEqual([...jobStatuses].sort())
})

interface Script {
  readonly submit?: SubmitOutcome
  readonly marked?: boolean
  readonly attend?: AttendOutcome
  readonly recorded?: boolean
}

async function run(from: 'dispatched' | 'running', script: Script, attempt = 1) {
  const verdicts: JobVerdict[] = []
  const path: string[] = []
  const machine = privateJobMachine.provide({
    actors: {
      submit: fromPromise(async () => script.submit ?? { kind: 'accepted' }),
      markRunning: fromPromise(async () => script.marked ?? true),
      attend: fromPromise(async () => script.attend ?? { kind: 'unreachable' }),
      record: fromPromise(async ({ input }) => {
        verdicts.push(input)
        return script.recorded ?? true
      }),
    },
  })
  const context = { attempt, verdict: null }
  const actor = createActor(machine, { snapshot: machine.resolveState({ value: from, context }), input: context })
  actor.start()
  actor.subscribe(({ value }) => path.push(String(value)))
  actor.send({ type: 'claimed' })
  await waitUntil('it rests', () => !actor.getSnapshot().hasTag('working'))
  return { path, verdicts }
}

const result = { encryptedResponse: {} as never, receiptHash: '0x', receiptText: '{}', signature: '', held: false }

test('§10: a dispatched job is submitted, marked, attended, recorded; a running one only attended', async () => {
  const attend = { kind: 'completed', result } as const
  expect((await run('dispatched', { attend })).path).toEqual([
    'submitting',
    'markingRunning',
    'attending',
    'recording',
    'completed',
  ])
  expect((await run('running', { attend })).path).toEqual(['attending', 'recording', 'completed'])
})

test('§10: retryable failures and lost commands take the next attempt after 5 s and 30 s, the third is the last', async () => {
  for (const attend of [
    { kind: 'failed', code: 'runtime_error' },
    { kind: 'failed', code: 'model_unavailable' },
    { kind: 'lost' },
  ] as const) {
    const first = await run('running', { attend }, 1)
    expect(first.verdicts).toEqual([{ status: 'queued', delayMs: 5_000 }])
    expect(first.path.at(-1)).toBe('queued')
    expect((await run('running', { attend }, 2)).verdicts).toEqual([{ status: 'queued', delayMs: 30_000 }])
    const last = await run('running', { attend }, 3)
    const code = attend.kind === 'lost' ? 'command_lost' : attend.code
    expect(last.verdicts).toEqual([{ status: 'failed', code }])
    expect(last.path.at(-1)).toBe('failed')
  }
})

test('§10: decrypt_failed and invalid_payload fail at once; a node that does not answer fails nothing', async () => {
  for (const code of ['decrypt_failed', 'invalid_payload', 'anything']) {
    const verdicts = [{ status: 'failed', code }] as const
    expect((await run('running', { attend: { kind: 'failed', code } })).verdicts).toEqual([...verdicts])
    expect((await run('dispatched', { submit: { kind: 'refused', code } })).verdicts).toEqual([...verdicts])
  }
  const silent = { kind: 'unreachable' } as const
  for (const { path, verdicts } of [
    await run('running', { attend: silent }),
    await run('dispatched', { submit: silent }),
  ]) {
    expect(verdicts).toEqual([{ status: 'released' }])
    expect(path.at(-1)).toBe('running')
  }
})

test('a lost lease ends the work and records nothing', async () => {
  expect(await run('dispatched', { marked: false })).toEqual({
    path: ['submitting', 'markingRunning', 'dispatched'],
    verdicts: [],
  })
  const late = await run('running', { attend: { kind: 'completed', result }, recorded: false })
  expect(late.path.at(-1)).toBe('running')
})
