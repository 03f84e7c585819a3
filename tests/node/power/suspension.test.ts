import { afterEach, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../src/log.ts'
import { watchClock } from '../../../src/node/power/clock-jump.ts'
import { ownMacs, ownNetworks } from '../../../src/node/power/own-cards.ts'
import { PacketSender } from '../../../src/node/power/packet-sender.ts'
import { Suspension, type SuspensionOptions } from '../../../src/node/power/suspension.ts'
import { networkCard } from '../../support/nodes/sleeping-computer.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const folder = mkdtempSync(join(tmpdir(), 'penstock-suspend-'))
const mark = join(folder, 'suspended')
afterEach(() => rmSync(mark, { force: true }))

function suspension(change: Partial<SuspensionOptions> = {}) {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(text))
  let busy = false
  let changes = 0
  const sleeping = new Suspension({
    command: `touch ${mark}`,
    afterMs: 60_000,
    isBusy: () => busy,
    hasGateway: () => true,
    changed: () => {
      changes++
    },
    log,
    clock,
    ...change,
  })
  const events = () => {
    log.flush()
    const all = lines
      .join('')
      .split('\n')
      .filter((line) => line !== '')
    return all.map((line) => (JSON.parse(line) as { event: string }).event)
  }
  return { sleeping, clock, events, work: (on: boolean) => (busy = on), changes: () => changes }
}
const ran = () => existsSync(mark)

test('§39: after its idle minutes, and not before', async () => {
  const { sleeping, clock } = suspension()
  await clock.pass(59_000)
  expect(sleeping.sleeps).toBe(false)
  await clock.pass(2_000)
  expect(sleeping.sleeps).toBe(true)
  sleeping.stop()
})

test('§39: work and requests put it off', async () => {
  const { sleeping, clock, work } = suspension()
  await clock.pass(50_000)
  sleeping.touched()
  await clock.pass(50_000)
  work(true)
  await clock.pass(200_000)
  work(false)
  await clock.pass(59_000)
  expect(sleeping.sleeps).toBe(false)
  await clock.pass(2_000)
  expect(sleeping.sleeps).toBe(true)
  sleeping.stop()
})

test('§39: the command runs only when the gateway has read twice that the computer sleeps', async () => {
  const { sleeping, clock, changes } = suspension()
  await clock.pass(61_000)
  const before = changes()
  sleeping.read()
  await clock.pass(500)
  // It was told that there is something to ask.
  expect(changes()).toBe(before + 1)
  expect(ran()).toBe(false)
  sleeping.read()
  await waitFor('the command', ran)
  sleeping.stop()
})

test('§39: a gateway that does not ask is waited for, for 15 seconds', async () => {
  const { sleeping, clock } = suspension()
  await clock.pass(61_000)
  await clock.pass(13_000)
  expect(ran()).toBe(false)
  await clock.pass(3_000)
  await waitFor('the command', ran)
  sleeping.stop()
})

test('§39: a request that comes while it falls asleep keeps it awake', async () => {
  const { sleeping, clock } = suspension()
  await clock.pass(61_000)
  sleeping.touched()
  sleeping.read()
  sleeping.read()
  await clock.pass(1_000)
  expect([sleeping.sleeps, ran()]).toEqual([false, false])
  sleeping.stop()
})

test('§39: a command that fails leaves it awake, and says so once', async () => {
  const { sleeping, clock, events } = suspension({ command: 'exit 3', hasGateway: () => false })
  await clock.pass(61_000)
  await waitFor('the failure', () => events().includes('suspend_failed'))
  expect(sleeping.sleeps).toBe(false)
  await clock.pass(30_000)
  expect(events().filter((event) => event === 'suspend_failed')).toHaveLength(1)
  sleeping.stop()
})

test('§39: it is awake with the jump of the clock, and idle from then on', async () => {
  const { sleeping, clock, events } = suspension({ hasGateway: () => false })
  await clock.pass(61_000)
  await waitFor('the command', ran)
  // The command may have ended in the last second of those.
  await waitFor('its wait', () => clock.waits.some((ms) => ms >= 59_000))
  sleeping.woke()
  await clock.pass(1_000)
  expect(sleeping.sleeps).toBe(false)
  await clock.pass(50_000)
  expect(sleeping.sleeps).toBe(false)
  expect(events()).toEqual(['suspending'])
  sleeping.stop()
})

test('§39: a command that suspends nothing: awake again after a minute', async () => {
  const { sleeping, clock, events } = suspension({ hasGateway: () => false })
  await clock.pass(61_000)
  await waitFor('its wait', () => ran() && clock.waits.some((ms) => ms >= 59_000))
  await clock.pass(61_000)
  expect(events()).toEqual(['suspending', 'not_suspended'])
  expect(sleeping.sleeps).toBe(false)
  sleeping.stop()
})

test('§39: an order is refused while anything runs, and needs no idle minutes', () => {
  const { sleeping, work } = suspension({ afterMs: null })
  work(true)
  expect([sleeping.order(), sleeping.sleeps]).toEqual([false, false])
  work(false)
  expect([sleeping.order(), sleeping.sleeps, sleeping.order()]).toEqual([true, true, true])
  sleeping.stop()
})

test('§39: a clock that jumps over a sleep is noticed; one that is late is not', async () => {
  let wallMs = 1_000_000
  const jumps: number[] = []
  const times = { everyMs: 5, jumpMs: 5_000, shortMs: 1_000 }
  const watching = watchClock(
    (ms) => jumps.push(ms),
    () => false,
    times,
    () => wallMs,
  )
  wallMs += 3_000
  await watching.now()
  wallMs += 3_600_000
  await watching.now()
  await watching.stop()
  expect(jumps).toEqual([3_600_000 - 5])
})

test('§39: only cards that a packet can wake are told, and at most four', () => {
  const entry = (mac: string, more: object = {}) =>
    [
      { address: '192.168.1.2', netmask: '', family: 'IPv4', mac, internal: false, cidr: '192.168.1.2/24', ...more },
    ] as never
  const interfaces = {
    eth0: entry('3c:7c:3f:00:00:01'),
    lo: entry('00:00:00:00:00:00', { internal: true }),
    docker0: entry('02:42:ac:11:00:02'),
    tun0: entry('00:00:00:00:00:00'),
    eth1: entry('3C:7C:3F:00:00:02'),
    eth2: entry('3c:7c:3f:00:00:03'),
    eth3: entry('3c:7c:3f:00:00:04'),
    eth4: entry('3c:7c:3f:00:00:05'),
  }
  expect(ownMacs(interfaces)).toEqual([1, 2, 3, 4].map((last) => `3c:7c:3f:00:00:0${last}`))
  expect(ownNetworks(interfaces)).toEqual(['192.168.1.2/24'])
})

test('§39: an agent sends one packet a second for one computer, whoever asks', async () => {
  const card = await networkCard({ mac: '3c:7c:3f:00:00:01' })
  const [host = '', port = ''] = card.address.split(':')
  const sender = new PacketSender(() => [{ host, port: Number(port) }])
  const sent = await Promise.all([1, 2, 3].map(() => sender.send(card.mac, null)))
  expect(sent).toEqual([true, false, false])
  expect(await sender.send('3c:7c:3f:00:00:02', null)).toBe(true)
  await waitFor('both', () => card.packets + card.others === 2)
  card.stop()
})
