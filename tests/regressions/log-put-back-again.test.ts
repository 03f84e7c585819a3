import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCosigning } from '../../src/actors/log/cosigning.ts'
import { originOf } from '../../src/actors/log/log-names.ts'
import { readLogState } from '../../src/db/queries/log/log.ts'
import { createLog } from '../../src/log.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../support/gateways/http-gateway.ts'
import { issued, sequencerOf, testKey } from '../support/money/forging.ts'
import { keepLog } from '../support/money/kept-log.ts'
import { signedLast } from '../support/money/lost-checkpoints.ts'
import { scoped } from '../support/run/fixture.ts'

/**
 * Symptom: after a second restore of the same backup two trees had one name and size, both signed. Where the right database was put back, a running gateway added
 * nothing until its next start, and an operator could name a fork of a log that was whole.
 * Cause: a gateway remembered what it had signed itself, and not the later name that another one had given the log. A checkpoint of a key that it did not have hid
 * that the log had an earlier name than before. And a fork ended with a later name alone.
 * Fix: it remembers each checkpoint of the log that it has found good. An earlier name is a fork, whichever key has signed it. A fork ends, too, where the
 * log leads on from what was lost.
 */
function memory() {
  let note: string | null = null
  const write = (text: string) => {
    note = text
  }
  return { read: () => note, write }
}

/** As a gateway of its own that has a data folder, with a log of the same database. */
async function started(beside?: TestGateway, keys: readonly string[] = ['77'.repeat(32)], logMemory = memory()) {
  const env = { ...stillLog, SVC_LOG_KEY: keys.join(',') }
  const gateway = await startTestGateway(env, undefined, { logMemory, ...(beside === undefined ? {} : { beside }) })
  const { sequencer } = gateway.gateway
  const body = { reason: 'restored', confirm: 'NAME THE FORK' }
  return Object.assign(gateway, {
    logMemory,
    catchUp: () => sequencer.catchUp(),
    fork: () => sequencer.fork(),
    grow: async () => {
      await issued(1, gateway)
      await sequencer.catchUp()
    },
    name: async () => json(await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json: body })),
    told: (name: string) => gateway.logged().filter(({ msg, event }) => (event ?? msg) === name).length,
  })
}

/** To the same backup twice, with a named fork between. Resolves with the last checkpoint before the fork and with the last one after it. */
async function putBackAgain({ grow, catchUp, name, logMemory, database }: Awaited<ReturnType<typeof started>>) {
  await grow()
  const putBack = await keepLog(database.sql)
  await grow()
  const earlier = logMemory.read() ?? ''
  await putBack()
  await catchUp()
  await name()
  await grow()
  const later = logMemory.read() ?? ''
  await putBack()
  return { earlier, later }
}

test('§31: a gateway that left a fork which another one named takes no earlier name, and gives the log no name twice', async () => {
  await using first = await scoped(started())
  await first.grow()
  const origin = originOf(first.logMemory.read() ?? '')
  const putBack = await keepLog(first.database.sql)
  await first.grow()
  await using second = await scoped(started(first))
  await second.grow()
  await putBack()
  for (const gateway of [first, second]) await gateway.catchUp()
  expect([first.fork(), second.fork()].map((note) => note?.split('\n')[0])).toEqual([origin, origin])
  expect(await first.name()).toMatchObject({ origin: `${origin}/2` })
  await first.catchUp()
  // It adds nothing here.
  await second.catchUp()
  expect([second.fork(), second.logMemory.read()?.split('\n')[0]]).toEqual([null, `${origin}/2`])
  await putBack()
  await second.catchUp()
  expect(second.fork()).toStartWith(`${origin}/2\n`)
  expect(await second.name()).toMatchObject({ origin: `${origin}/3` })
})

test('§31: a checkpoint that was looked at beside the turns is in the data folder after the next one', async () => {
  await using first = await scoped(started())
  await first.grow()
  await using second = await scoped(started(first))
  await second.catchUp()
  await first.grow()
  const { db } = first.database
  const state = await readLogState(db)
  if (state === null) throw new Error('no log')
  expect(await second.gateway.sequencer.holds(db, state)).toBe(true)
  await second.catchUp()
  expect(second.logMemory.read()).toBe(first.logMemory.read())
})

test('§31: of checkpoints that were lost the one of the latest name counts, in whichever order they are shown', async () => {
  await using first = await scoped(started())
  const { earlier, later } = await putBackAgain(first)
  await using fresh = await scoped(started(first))
  // An agent that was away shows the earlier one, to a gateway that knows better and to one that does not.
  for (const { gateway } of [first, fresh]) gateway.sequencer.exposed(earlier)
  expect([first.fork(), fresh.fork()]).toEqual([later, earlier])
  fresh.gateway.sequencer.exposed(later)
  expect(fresh.fork()).toBe(later)
  expect(await fresh.name()).toMatchObject({ origin: originOf(later).replace(/2$/, '3') })
})

test('§31: a witness that has signed a later name is heard, though the log that was put back has outgrown it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-outgrown-'))
  await using first = await scoped(started())
  try {
    const { later } = await putBackAgain(first)
    // As a gateway without a data folder does that starts now.
    const fresh = sequencerOf(first)
    await fresh.start()
    await issued(10, first)
    await fresh.catchUp()
    await fresh.stop()
    const { db } = first.database
    const options = { db, log: createLog('silent', () => {}), keys: [testKey] as const, everyMs: 600_000 }
    const { sequencer } = first.gateway
    const cosigning = createCosigning({
      ...options,
      sequencer,
      witnesses: async () => [signedLast(later, folder, '05')],
    })
    expect(await cosigning.round()).toBe(0)
    expect(first.fork()).toBe(later)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('§31: a log that was put back to before a fork is forked, though a key that the gateway does not have has signed it', async () => {
  await using first = await scoped(started())
  const { earlier } = await putBackAgain(first)
  await using rotated = await scoped(started(first, ['88'.repeat(32)], first.logMemory))
  await rotated.catchUp()
  expect([rotated.told('log_forked'), rotated.told('log_key_unknown')]).toEqual([1, 0])
  expect(await rotated.name()).toMatchObject({ origin: `${originOf(earlier)}/3` })
})

test('§31: a fork ends where the right database is put back, and cannot be named then', async () => {
  await using gateway = await scoped(started())
  await gateway.grow()
  const putBackOlder = await keepLog(gateway.database.sql)
  await gateway.grow()
  const [putBack, note] = [await keepLog(gateway.database.sql), gateway.logMemory.read()]
  await putBackOlder()
  await gateway.catchUp()
  expect(gateway.fork()).toBe(note)
  await putBack()
  expect((await gateway.name()).code).toBe('invalid_state')
  await gateway.grow()
  expect([gateway.fork(), gateway.told('log_forked')]).toEqual([null, 1])
  expect(gateway.logMemory.read()).toStartWith(`${originOf(note ?? '')}\n`)
  expect(gateway.logMemory.read()).not.toBe(note)
  expect((await gateway.gateway.checkBooks()).faults).toEqual([])
})
