import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { showing, signedLast, startLosingGateway } from '../support/money/lost-checkpoints.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: after a database was put back, one agent could have the log name each checkpoint that was lost, until there was room for none: witnesses
 * that had signed another one could not go on with the log any more.
 * Cause: each checkpoint that a witness shows as its last one, and that a key of the log has signed, got an entry, of at most 64. Anybody has read them.
 * Later each process named one for it, and another one after each start.
 * Fix: of each witness one is named, and the database says for which it was.
 */
const { grow, loseAndName, forks, cosigningBy } = await fixture(startLosingGateway())
const scratch = mkdtempSync(join(tmpdir(), 'penstock-fork-'))
afterAll(() => rmSync(scratch, { recursive: true }))

test('§36: one witness has the log name one of the checkpoints that were lost, and leaves room for the others', async () => {
  await grow()
  await grow()
  const lost = await loseAndName(5)
  expect(await forks()).toBe(1)
  let asked = 0
  const shown = showing('hostile', lost)
  const hostile: typeof shown = {
    ...shown,
    ask: (...call) => {
      asked++
      return shown.ask(...call)
    },
  }
  const [one, other] = [cosigningBy(hostile), cosigningBy(hostile)]
  for (const process of [one, one, other, other, cosigningBy(hostile)]) {
    await grow()
    await process.round()
  }
  expect(asked).toBeGreaterThanOrEqual(lost.length)
  expect(await forks()).toBe(2)
  const honest = cosigningBy(signedLast(lost[2] ?? '', join(scratch, 'honest'), '05'))
  expect(await honest.round()).toBe(0)
  expect(await honest.round()).toBe(1)
  expect(await forks()).toBe(3)
})
