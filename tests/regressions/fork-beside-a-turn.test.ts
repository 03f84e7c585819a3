import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { holdLog } from '../support/money/held-log.ts'
import { signedLast, startLosingGateway } from '../support/money/lost-checkpoints.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: an operator's step after a restore failed by chance with `invalid_state`, and a witness that showed a lost checkpoint could go on a round later than
 * others, up to ten minutes.
 * Cause: both left the log alone when a gateway was writing it in that moment, as a gateway does that has its turns.
 * Fix: both wait for the turn, for 5 s at most.
 */
const { sql, grow, lose, nameFork, forks, cosigningBy } = await fixture(startLosingGateway())
const scratch = mkdtempSync(join(tmpdir(), 'penstock-fork-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const oneWaits = () =>
  waitUntil('a step that waits for the turn', async () => (await lockWaits(sql, '%(7413, 80)%')) === 1)

test('§31: a fork is named, and a witness follows it, behind the turn that another gateway is at', async () => {
  await grow()
  const lost = await lose(2)
  const endTurn = await holdLog(sql)
  // It comes to no end.
  expect(await nameFork()).toBe(409)
  const naming = nameFork()
  await oneWaits()
  await endTurn()
  expect(await naming).toBe(200)
  const honest = cosigningBy(signedLast(lost[0] ?? '', scratch, '05'))
  const endNextTurn = await holdLog(sql)
  const following = honest.round()
  await oneWaits()
  await endNextTurn()
  expect(await following).toBe(0)
  expect([await honest.round(), await forks()]).toEqual([1, 2])
})
