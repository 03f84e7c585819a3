import { expect, test } from 'bun:test'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { type AskedWitness, createCosigning, type WitnessReply } from '../../src/actors/log/cosigning.ts'
import { parseNote, signatureLine } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { parseWitnessRequest } from '../../src/protocol/log/witnessing.ts'
import { growingLog } from '../support/money/growing-log.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: where some dozens of an account's agents took a checkpoint and did not answer, the other witnesses cosigned minutes later, and checkpoints that
 * were older than the minute after which the log is shown without their signatures.
 * Cause: the witnesses that the settings name were asked last, each of eight questions at once waits for 10 s, and the round for all of them.
 * Fix: those that sign soonest are asked first, and none is asked any more once a round has taken 10 s.
 */
const database = await fixture(testDatabase())
const { sql } = database
const { db, log, keys, sequencer, grow } = await growingLog(database)
const clock = new VirtualClock()

const signerOf = (seed: number) =>
  logSigner(`witness/${seed}`, seededKey(seed.toString(16).padStart(2, '0').repeat(32)))
/** Those that were asked since the last look, in turn. */
const asked: string[] = []
const since = () => asked.splice(0)

function signing(seed: number): AskedWitness {
  const signer = signerOf(seed)
  return {
    key: signer.cosigningKey,
    ask: async (body) => {
      asked.push('signs')
      const { text } = parseNote(parseWitnessRequest(body)?.note ?? '') ?? { text: '' }
      return { status: 200, text: signatureLine(signer.cosign(text, 1)), seen: null }
    },
  }
}

/** Each answers nothing, until it is too late. */
function hanging(count: number) {
  const waiting: ((nothing: null) => void)[] = []
  const witnesses = Array.from(
    { length: count },
    (_, at): AskedWitness => ({
      key: signerOf(100 + at).cosigningKey,
      ask: () => {
        asked.push('hangs')
        return new Promise<WitnessReply | null>((resolve) => waiting.push(resolve))
      },
    }),
  )
  const tooLate = async () => {
    await clock.pass(10_000)
    for (const end of waiting.splice(0)) end(null)
  }
  return { witnesses, tooLate }
}

const cosigningBy = (...witnesses: readonly AskedWitness[]) =>
  createCosigning({ db, log, keys, sequencer, witnesses: async () => witnesses, everyMs: 5_000, clock })
const signatures = async () => (await sql`select 1 from log_cosignatures`).length

test('§31: a witness that the settings name signs while dozens of others do not answer', async () => {
  await grow()
  const { witnesses, tooLate } = hanging(40)
  const round = cosigningBy(signing(1), ...witnesses).round()
  await waitUntil('its signature', async () => (await signatures()) === 1)
  await waitUntil('as many to be asked at once as may', () => asked.length === 9)
  await tooLate()
  // No other is asked: the next round has a newer checkpoint.
  expect(await round).toBe(1)
  expect(since()).toEqual(['signs', ...Array.from({ length: 8 }, () => 'hangs')])
})

test('§31: those that have signed are asked first, and the others in turn', async () => {
  const { witnesses, tooLate } = hanging(24)
  const cosigning = cosigningBy(...witnesses.slice(0, 12), signing(2), ...witnesses.slice(12))
  const signed: number[] = []
  for (const questions of [8, 9, 9, 9]) {
    await grow()
    const round = cosigning.round()
    await waitUntil('the questions of a round', () => asked.length === questions)
    await tooLate()
    signed.push(await round)
    expect(since().length).toBe(questions)
  }
  expect(signed).toEqual([0, 1, 1, 1])
})
