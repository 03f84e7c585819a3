import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { showing, signedLast, startLosingGateway } from '../support/money/lost-checkpoints.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: after a database was put back, 64 agents of one customer left no room for what the agents of others had signed of the log that was lost: those could
 * not go on with the log any more.
 * Cause: the log names one lost checkpoint for each witness, 64 in all, and a customer can have any number of agents.
 * Fix: the agents of one customer get at most half of the room that all others leave them.
 */
const { sql, grow, loseAndName, forks, cosigningBy } = await fixture(startLosingGateway())
const scratch = mkdtempSync(join(tmpdir(), 'penstock-fork-'))
afterAll(() => rmSync(scratch, { recursive: true }))

test('§36: the agents of one customer leave room for the agents of others', async () => {
  await grow()
  const lost = await loseAndName(40)
  const shows = (at: number, owner: string, note = '') => cosigningBy(showing(`agent-${at}`, [note], owner)).round()
  for (let at = 0; at < 36; at++) await shows(at, 'cus_hostile', lost[at])
  expect(await forks()).toBe(33)
  await shows(100, 'cus_other', lost[36])
  expect(await forks()).toBe(34)
  for (const [at, owner] of ['cus_a', 'cus_b'].entries()) {
    const honest = cosigningBy(signedLast(lost[37 + at] ?? '', join(scratch, owner), `1${at}`, owner))
    expect([await honest.round(), await honest.round()]).toEqual([0, 1])
  }
  expect(await forks()).toBe(36)
  const owners = await sql<{ owner: string | null }[]>`select distinct owner from log_forks order by owner nulls first`
  expect(owners.map(({ owner }) => owner)).toEqual([null, 'cus_a', 'cus_b', 'cus_hostile', 'cus_other'])
})
