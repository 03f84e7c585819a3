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
 * Symptom: eight agents that took ten seconds for each signature, or some dozens that took one or two, kept every checkpoint from a witness that was new or
 * had failed once, for ever.
 * Cause: those that had signed came before all others, however long they took, and a round asks none after 10 s.
 * Fix: first are those that sign soon, and two of eight questions at once are for the others, in turn.
 */
const { db, log, keys, sequencer, grow } = await growingLog(await fixture(testDatabase()))

/** How many of so many rounds an honest witness signs that is known last, where so many others take so long for each signature. */
async function signedBeside(count: number, tookMs: number, rounds: number): Promise<number> {
  const clock = new VirtualClock()
  const waiting: (() => void)[] = []
  let asked = 0
  let honest = 0
  const witness = (seed: number, answered: (reply: WitnessReply) => Promise<WitnessReply>): AskedWitness => {
    const signer = logSigner(`witness/${seed}`, seededKey(seed.toString(16).padStart(2, '0').repeat(32)))
    return {
      key: signer.cosigningKey,
      ask: (body) => {
        asked++
        const { text } = parseNote(parseWitnessRequest(body)?.note ?? '') ?? { text: '' }
        return answered({ status: 200, text: signatureLine(signer.cosign(text, 1)), seen: null })
      },
    }
  }
  const slow = (reply: WitnessReply) => new Promise<WitnessReply>((resolve) => waiting.push(() => resolve(reply)))
  const soon = async (reply: WitnessReply) => {
    honest++
    return reply
  }
  const witnesses = [...Array.from({ length: count }, (_, at) => witness(100 + at, slow)), witness(1, soon)]
  const cosigning = createCosigning({
    db,
    log,
    keys,
    sequencer,
    witnesses: async () => witnesses,
    everyMs: 5_000,
    clock,
  })
  for (let round = 0; round < rounds; round++) {
    await grow()
    asked = 0
    let over = false
    const ended = cosigning.round().finally(() => {
      over = true
    })
    for (let ms = 0; ms < 10_000; ms += tookMs) {
      await waitUntil('all questions that are asked at once', () => over || waiting.length === 8 || asked > count)
      await clock.pass(tookMs)
      for (const answer of waiting.splice(0)) answer()
    }
    await ended
  }
  return honest
}

test('§31: a witness that takes its time for each signature keeps no checkpoint from another witness', async () => {
  expect(await signedBeside(8, 10_000, 3)).toBeGreaterThanOrEqual(2)
})

test('§31: nor do more witnesses than a round can ask', async () => {
  expect(await signedBeside(41, 2_000, 2)).toBeGreaterThanOrEqual(1)
})
