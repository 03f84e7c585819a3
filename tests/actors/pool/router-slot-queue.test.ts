import { describe, expect, test } from 'bun:test'
import { createSlotQueue, type SlotQueue } from '../../../src/actors/pool/slot-queue.ts'
import { Ticket, type Waiting } from '../../../src/actors/pool/waiting-line.ts'
import { newReading } from '../../../src/machines/placement/reading.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { turn } from '../../support/run/turn.ts'

const queueOf = (waitingMax: number, waitingKeyMax = waitingMax) =>
  createSlotQueue({ SVC_QUEUE_WAITING_MAX: waitingMax, SVC_QUEUE_WAITING_KEY_MAX: waitingKeyMax })
const never = new AbortController().signal
const ticket = (who: Partial<Waiting> = {}) => new Ticket({ customerId: 'c', keyId: 'k', priority: 5, ...who })

test('§5: at most so many wait per model; the next one is told so at once', async () => {
  const queue = queueOf(2)
  const waiting = [queue.wait('m', ticket(), waitLimitMs, never), queue.wait('m', ticket(), waitLimitMs, never)]
  expect(await queue.wait('m', ticket(), waitLimitMs, never)).toBe('full')
  const other = queue.wait('n', ticket(), waitLimitMs, never)
  expect(queue.waiting).toBe(3)
  queue.wake('m')
  expect(await Promise.all(waiting)).toEqual(['slot', 'slot'])
  expect(queue.waiting).toBe(1)
  queue.wake(null)
  expect(await other).toBe('slot')
  expect(queue.waiting).toBe(0)
})

test('§5: who has waited long enough is told', async () => {
  const queue = queueOf(1)
  expect(await queue.wait('m', ticket(), 20, never)).toBe('timeout')
  expect(await queue.wait('m', ticket(), 0, never)).toBe('timeout')
  expect(queue.waiting).toBe(0)
})

test('a client that leaves gives its place back', async () => {
  const queue = queueOf(1)
  const client = new AbortController()
  const waiting = queue.wait('m', ticket(), waitLimitMs, client.signal)
  client.abort()
  expect(await waiting).toBe('aborted')
  expect(queue.waiting).toBe(0)
  expect(await queue.wait('m', ticket(), waitLimitMs, client.signal)).toBe('aborted')
  const next = queue.wait('m', ticket(), waitLimitMs, never)
  queue.wake('m')
  expect(await next).toBe('slot')
})

test('those who are woken and wait again keep their order', async () => {
  const queue = queueOf(3)
  const order: number[] = []
  let slots = 0
  const taken = [1, 2, 3].map(async (id) => {
    const own = ticket()
    while (slots === 0) await queue.wait('m', own, waitLimitMs, never)
    slots--
    order.push(id)
  })
  for (let i = 0; i < 3; i++) {
    slots++
    queue.wake('m')
    await turn()
  }
  await Promise.all(taken)
  expect(order).toEqual([1, 2, 3])
})

/** One slot that comes free again and again: in which order those who wait get it. */
async function servedOrder(queue: SlotQueue, waiting: readonly (readonly [string, Partial<Waiting>])[]) {
  const order: string[] = []
  let free = 0
  const enter = async ([name, who]: readonly [string, Partial<Waiting>]) => {
    const own = ticket(who)
    do {
      if ((await queue.wait('m', own, waitLimitMs, never)) !== 'slot') return void order.push(`${name} refused`)
    } while (free === 0)
    free--
    queue.served('m', own)
    order.push(name)
  }
  const entered = waiting.map(enter)
  while (queue.waiting > 0) {
    free = 1
    queue.wake('m')
    await turn()
  }
  await Promise.all(entered)
  return order
}
const many = (count: number, name: string, who: Partial<Waiting>) =>
  Array.from({ length: count }, (_, at) => [`${name}${at}`, who] as const)

test("§30: one customer's many delay another's single one by one slot", async () => {
  const order = await servedOrder(queueOf(64), [...many(40, 'a', { customerId: 'a' }), ['b', { customerId: 'b' }]])
  expect(order.slice(0, 3)).toEqual(['a0', 'b', 'a1'])
})

test('§30: customers, and the keys of one, take turns; who came later to a line in use starts now, not in its past', async () => {
  const order = await servedOrder(queueOf(64), [
    ...many(3, 'x', { customerId: 'a', keyId: 'x' }),
    ...many(2, 'y', { customerId: 'a', keyId: 'y' }),
    ...many(2, 'b', { customerId: 'b' }),
  ])
  expect(order).toEqual(['x0', 'b0', 'y0', 'b1', 'x1', 'y1', 'x2'])
})

for (const who of ['customerId', 'keyId'] as const) {
  test(`§30: turns are counted by what was served: who asks again and again in vain loses none (${who})`, async () => {
    const queue = queueOf(256)
    const served: string[] = []
    let free = 0
    const inLine: Record<'a' | 'b', AbortController[]> = { a: [], b: [] }
    const enter = async (name: 'a' | 'b') => {
      const own = ticket({ [who]: name })
      const client = new AbortController()
      inLine[name].push(client)
      do {
        if ((await queue.wait('m', own, waitLimitMs, client.signal)) !== 'slot') return
      } while (free === 0)
      free--
      queue.served('m', own)
      inLine[name].splice(inLine[name].indexOf(client), 1)
      served.push(name)
    }
    // Each waits for a while and gives up, then comes again: a ten times as often as b, for each slot that comes free.
    const leaves = { a: 10, b: 1 }
    for (let slot = 0; slot < 20; slot++) {
      for (const name of ['a', 'b'] as const) {
        for (const client of inLine[name].splice(0, inLine[name].length > 3 ? leaves[name] : 0)) client.abort()
        for (let at = 0; at < leaves[name]; at++) void enter(name)
      }
      await turn()
      free = 1
      queue.wake('m')
      await turn()
    }
    for (const name of ['a', 'b'] as const) {
      const turns = served.filter((one) => one === name).length
      expect([name, served.length, Math.abs(turns - 10) <= 1]).toEqual([name, 20, true])
    }
    for (const client of [...inLine.a, ...inLine.b]) client.abort()
  })
}

test('§30: higher priorities first', async () => {
  const waiting = [...many(2, 'low', { priority: 1 }), ...many(2, 'mid', {}), ...many(2, 'high', { priority: 9 })]
  const order = await servedOrder(queueOf(64), waiting)
  expect(order).toEqual(['high0', 'high1', 'mid0', 'mid1', 'low0', 'low1'])
})

test('§30: whoever fills the line gives up a place to one with fewer', async () => {
  const order = await servedOrder(queueOf(4, 64), [...many(5, 'a', { customerId: 'a' }), ['b', { customerId: 'b' }]])
  expect(order).toEqual(['a4 refused', 'a3 refused', 'a0', 'b', 'a1', 'a2'])
})

/** How often those who wait looked for a slot, and which of them has one. */
async function looks(count: number, mayUse: (at: number) => boolean, wake: (queue: SlotQueue) => void) {
  const queue = queueOf(count)
  let free = 0
  let looked = 0
  const served: number[] = []
  const left = new AbortController()
  const enter = async (at: number) => {
    const own = ticket({ customerId: `c${at % 7}` })
    while ((await queue.wait('m', own, waitLimitMs, left.signal)) === 'slot') {
      looked++
      if (free === 0 || !mayUse(at)) continue
      free--
      queue.served('m', own)
      return void served.push(at)
    }
  }
  const entered = Array.from({ length: count }, (_, at) => enter(at))
  free = 1
  wake(queue)
  // As many turns as a round through all of them takes.
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
  left.abort()
  await Promise.all(entered)
  return { looked, served }
}

test('§5: for one slot that comes free a long line looks twice and not a thousand times', async () => {
  expect(
    await looks(
      1_000,
      () => true,
      (queue) => queue.wake('m'),
    ),
  ).toEqual({ looked: 2, served: [0] })
})

test('§5: a slot that only the last in line may use is found by the last in line, once each has looked', async () => {
  const last = (at: number) => at === 299
  expect(await looks(300, last, (queue) => queue.wake('m'))).toEqual({ looked: 300, served: [299] })
})

test('§5: where anything may have changed, all of them look', async () => {
  expect(
    await looks(
      300,
      () => true,
      (queue) => queue.wake(null),
    ),
  ).toEqual({ looked: 300, served: [0] })
})

test('§30: of one key only so many wait, whatever room there is for others', async () => {
  const queue = queueOf(10, 2)
  const waiting = [queue.wait('m', ticket(), waitLimitMs, never), queue.wait('m', ticket(), waitLimitMs, never)]
  expect(await queue.wait('m', ticket(), waitLimitMs, never)).toBe('full')
  const other = queue.wait('m', ticket({ keyId: 'k2' }), waitLimitMs, never)
  expect(queue.waiting).toBe(3)
  queue.wake(null)
  expect(await Promise.all([...waiting, other])).toEqual(['slot', 'slot', 'slot'])
  const again = queue.wait('m', ticket(), waitLimitMs, never)
  queue.wake('m')
  expect(await again).toBe('slot')
})

describe('§29: who waits for the slot of one route', () => {
  const reading = newReading('mp_a')
  const waitingFor = (profileId: string | null, who: Partial<Waiting> = {}) => {
    const own = ticket(who)
    own.awaits = profileId === null ? null : { profileId, reading, ownMs: 100 }
    return own
  }

  test('a slot of another route is offered first to those who can use it, in their order', async () => {
    const queue = queueOf(10)
    const asked: string[] = []
    const left = new AbortController()
    const enter = async (name: string, own: Ticket) => {
      while ((await queue.wait('m', own, waitLimitMs, left.signal)) === 'slot') asked.push(name)
    }
    const entered = [
      enter('for a', waitingFor('mp_a')),
      enter('for b', waitingFor('mp_b')),
      enter('for any', waitingFor(null)),
      enter('for b, before others', waitingFor('mp_b', { priority: 9 })),
    ]
    queue.wake('m', 'mp_b')
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(asked).toEqual(['for b, before others', 'for b', 'for any', 'for a'])
    left.abort()
    await Promise.all(entered)
  })

  test('a slot of that route is found at once in a long line, and the others do not look', async () => {
    const queue = queueOf(1_000)
    const left = new AbortController()
    let looked = 0
    const served: number[] = []
    const enter = async (at: number) => {
      const own = waitingFor(`mp_${at % 100}`)
      while ((await queue.wait('m', own, waitLimitMs, left.signal)) === 'slot') {
        looked++
        if (served.length > 0) continue
        queue.served('m', own)
        return void served.push(at)
      }
    }
    const entered = Array.from({ length: 1_000 }, (_, at) => enter(at))
    queue.wake('m', 'mp_57')
    for (let turn = 0; turn < 1_000; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect({ looked, served }).toEqual({ looked: 2, served: [57] })
    left.abort()
    await Promise.all(entered)
  })

  test('it counts there while it stands in line, however it leaves', async () => {
    const queue = queueOf(10)
    const left = new AbortController()
    const counts = () => [reading.awaited, reading.awaitedMs]
    const [gone, late, served] = [
      queue.wait('m', waitingFor('mp_a'), waitLimitMs, left.signal),
      queue.wait('m', waitingFor('mp_a'), 5, never),
      queue.wait('m', waitingFor('mp_a', { priority: 9 }), waitLimitMs, never),
    ]
    expect(counts()).toEqual([3, 300])
    expect(await late).toBe('timeout')
    left.abort()
    expect(await gone).toBe('aborted')
    expect(counts()).toEqual([1, 100])
    queue.wake('m', 'mp_a')
    expect(await served).toBe('slot')
    expect(counts()).toEqual([0, 0])
  })
})
