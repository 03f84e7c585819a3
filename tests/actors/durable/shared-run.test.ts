import { expect, test } from 'bun:test'
import { sharedRun } from '../../../src/actors/durable/shared-run.ts'

function heldRuns() {
  const held: PromiseWithResolvers<number>[] = []
  const ask = sharedRun(() => {
    const run = Promise.withResolvers<number>()
    held.push(run)
    return run.promise
  })
  return { held, ask }
}

test('who asks while one runs gets the one after it, together with all others', async () => {
  const { held, ask } = heldRuns()
  const first = ask()
  const later = [ask(), ask(), ask()]
  expect(held).toHaveLength(1)
  held[0]?.resolve(1)
  expect(await first).toBe(1)
  expect(held).toHaveLength(2)
  const last = ask()
  held[1]?.resolve(2)
  expect(await Promise.all(later)).toEqual([2, 2, 2])
  held[2]?.resolve(3)
  expect(await last).toBe(3)
  expect(held).toHaveLength(3)
})

test('one that fails fails for those who asked for it, and the next one runs', async () => {
  const { held, ask } = heldRuns()
  const first = ask()
  const second = ask()
  held[0]?.reject(new Error('away'))
  await expect(first).rejects.toThrow('away')
  held[1]?.resolve(2)
  expect(await second).toBe(2)
  const third = ask()
  held[2]?.resolve(3)
  expect(await third).toBe(3)
})
