import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { Descriptors } from '../../src/host/descriptors.ts'
import { watchDescriptors } from '../../src/listener/descriptor-watch.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

const child = resolve(import.meta.dir, '..', 'support', 'run', 'exhausted-child.ts')

test('a process without a descriptor left still reaches nodes and database; when it cannot, it does not blame them', async () => {
  await using node = await scoped(startScriptedNode('m'))
  await using database = await scoped(testDatabase())
  const command = ['sh', '-c', 'ulimit -n 96; exec "$0" "$@"', process.execPath, child, node.url, database.url]
  const run = Bun.spawn(command, { stdio: ['ignore', 'pipe', 'inherit'] })
  expect(await new Response(run.stdout).json()).toEqual({
    lent: { node: '200', database: '1', exhausted: true },
    // What Bun says of a socket that cannot be made.
    without: { node: 'exhausted', database: 'ECONNREFUSED', exhausted: true },
  })
})

test('above nine tenths they are scarce; what is held back counts for neither', () => {
  let open = 90
  const descriptors: Descriptors = new Descriptors(1_000, () => open + descriptors.held)
  descriptors.look()
  expect([descriptors.scarce, descriptors.held, descriptors.used()]).toEqual([false, 50, 90])
  open = 900
  descriptors.look()
  expect(descriptors.scarce).toBe(false)
  open = 901
  descriptors.look()
  expect([descriptors.scarce, descriptors.used()]).toEqual([true, 901])
  descriptors.lend()
  expect(descriptors.held).toBe(50)
  open = 948
  descriptors.lend()
  expect(descriptors.held).toBe(49)
  descriptors.lend(8)
  expect(descriptors.held).toBe(41)
  open = 500
  descriptors.look()
  expect([descriptors.scarce, descriptors.held]).toEqual([false, 50])
  descriptors.close()
  expect(descriptors.held).toBe(0)
})

test('while they are scarce, idle connections close at once and every 5 s, and the log says so once a minute', async () => {
  const clock = new VirtualClock()
  const scarce = new Descriptors(1_000, () => 950)
  const seen = { closed: 0, logged: 0 }
  const stop = watchDescriptors(scarce, {
    server: () => ({ closeIdleConnections: () => ++seen.closed }),
    log: { warn: (event) => (seen.logged += event === 'descriptors_low' ? 1 : 0) },
    clock,
  })
  const seenAt = async (ms: number) => {
    await clock.pass(ms - clock.now())
    return { ...seen }
  }
  expect(seen).toEqual({ closed: 1, logged: 1 })
  expect(await seenAt(4_999)).toEqual({ closed: 1, logged: 1 })
  expect(await seenAt(5_000)).toEqual({ closed: 2, logged: 1 })
  expect(await seenAt(59_999)).toEqual({ closed: 12, logged: 1 })
  expect(await seenAt(60_000)).toEqual({ closed: 13, logged: 2 })
  stop()
  expect(clock.waits).toEqual([])
})
