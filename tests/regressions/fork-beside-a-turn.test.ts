import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestGateway, stillLog, type TestGateway } from '../support/gateways/http-gateway.ts'
import { holdLog } from '../support/money/held-log.ts'
import { signedLast, startLosingGateway } from '../support/money/lost-checkpoints.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: an operator's step after a restore failed by chance with `invalid_state`. Two steps at once, or one at another gateway soon after, named two forks: the
 * log said twice that the same was lost.
 * Cause: it left the log alone when a gateway was writing it in that moment, as a gateway does that has its turns. And it looked before its own turn alone whether
 * anything was lost.
 * Fix: it waits for the turn, for 5 s at most, and looks again then.
 */
const { sql, sequencer, grow, lose, nameFork, forks, cosigningBy } = await fixture(startLosingGateway())
const scratch = mkdtempSync(join(tmpdir(), 'penstock-fork-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const waitFor = (steps: number) =>
  waitUntil('steps that wait for the turn', async () => (await lockWaits(sql, '%(7413, 80)%')) === steps)

test('§31: a fork is named behind the turn that another gateway is at, and by one of two steps at once', async () => {
  await grow()
  const lost = await lose(2)
  const endTurn = await holdLog(sql)
  // It comes to no end.
  expect(await nameFork()).toBe(409)
  const naming = [nameFork(), nameFork()]
  await waitFor(2)
  await endTurn()
  expect((await Promise.all(naming)).toSorted()).toEqual([200, 409])
  expect(await forks()).toBe(1)
  // Nor by one at a gateway that has not looked since.
  const seen = lost[1] ?? ''
  sequencer.exposed(seen)
  expect([sequencer.fork(), await nameFork(), await forks()]).toEqual([seen, 409, 1])
  await sequencer.catchUp()
  expect(sequencer.fork()).toBe(null)
  const honest = cosigningBy(signedLast(lost[0] ?? '', scratch, '05'))
  expect([await honest.round(), await honest.round(), await forks()]).toEqual([0, 1, 2])
})

test('§31: a fork of which no checkpoint is known is named once, whichever gateway is asked', async () => {
  const database = await scoped(testDatabase())
  await using _database = database
  const start = () => startTestGateway(stillLog, async () => database.url)
  const first = await start()
  await first.gateway.sequencer.catchUp()
  await first.stop()
  await database.sql`delete from log_checkpoints`
  await using one = await scoped(start())
  await using other = await scoped(start())
  const name = async (gateway: TestGateway) => {
    const json = { reason: 'restored', confirm: 'NAME THE FORK' }
    return (await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json })).status
  }
  for (const { gateway } of [one, other]) {
    await gateway.sequencer.catchUp()
    expect(gateway.sequencer.fork()).toBe('')
  }
  expect([await name(one), await name(other)]).toEqual([200, 409])
  await other.gateway.sequencer.catchUp()
  expect(other.gateway.sequencer.fork()).toBe(null)
  expect(await database.sql`select 1 from log_forks`).toHaveLength(1)
})
