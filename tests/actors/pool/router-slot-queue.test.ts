import { expect, test } from 'bun:test'
import { createSlotQueue } from '../../../src/actors/pool/slot-queue.ts'

const never = new AbortController().signal

test('§5: at most so many wait per model; the next one is told so at once', async () => {
  const queue = createSlotQueue(2)
  const waiting = [queue.wait('m', 5_000, never), queue.wait('m', 5_000, never)]
  expect(await queue.wait('m', 5_000, never)).toBe('full')
  const other = queue.wait('n', 5_000, never)
  expect(queue.waiting).toBe(3)
  queue.wake('m')
  expect(await Promise.all(waiting)).toEqual(['slot', 'slot'])
  expect(queue.waiting).toBe(1)
  queue.wake(null)
  expect(await other).toBe('slot')
  expect(queue.waiting).toBe(0)
})

test('§5: who has waited long enough is told', async () => {
  const queue = createSlotQueue(1)
  expect(await queue.wait('m', 20, never)).toBe('timeout')
  expect(await queue.wait('m', 0, never)).toBe('timeout')
  expect(queue.waiting).toBe(0)
})

test('a client that leaves gives its place back', async () => {
  const queue = createSlotQueue(1)
  const client = new AbortController()
  const waiting = queue.wait('m', 5_000, client.signal)
  client.abort()
  expect(await waiting).toBe('aborted')
  expect(queue.waiting).toBe(0)
  expect(await queue.wait('m', 5_000, client.signal)).toBe('aborted')
  const next = queue.wait('m', 5_000, never)
  queue.wake('m')
  expect(await next).toBe('slot')
})

test('those who are woken and wait again keep their order', async () => {
  const queue = createSlotQueue(3)
  const order: number[] = []
  let slots = 0
  const taken = [1, 2, 3].map(async (id) => {
    while (slots === 0) await queue.wait('m', 5_000, never)
    slots--
    order.push(id)
  })
  for (let i = 0; i < 3; i++) {
    slots++
    queue.wake('m')
    await Bun.sleep(0)
  }
  await Promise.all(taken)
  expect(order).toEqual([1, 2, 3])
})
