import { describe, expect, test } from 'bun:test'
import { uncountedBytesMax } from '../../src/host/budget.ts'
import { LargeWork } from '../../src/host/large-work.ts'

const MiB = 1024 * 1024

describe('§17: large answers take turns', () => {
  test('small work is done at once, also while large work waits', () => {
    const work = new LargeWork()
    const done: string[] = []
    work.take(2 * MiB, () => done.push('large'))
    work.take(2 * MiB, () => done.push('second'))
    work.take(uncountedBytesMax, () => done.push('small'))
    expect(done).toEqual(['large', 'small'])
    expect(work.turn(uncountedBytesMax)).toBeNull()
  })

  test('large work is done one after the other, in its order, with other things between', async () => {
    const work = new LargeWork()
    const done: string[] = []
    work.take(MiB, () => done.push('first'))
    const second = work.turn(MiB)?.then(() => done.push('second'))
    const third = work.turn(MiB)?.then(() => done.push('third'))
    setImmediate(() => done.push('other'))
    await Promise.all([second, third])
    expect(done).toEqual(['first', 'other', 'second', 'third'])
  })

  test('what comes faster than half a mebibyte a turn is held, and goes on later', async () => {
    const work = new LargeWork()
    const said: string[] = []
    const all = Promise.withResolvers<void>()
    const flow = (name: string) => ({
      pause: () => void said.push(`hold ${name}`),
      resume: () => {
        said.push(`go on ${name}`)
        if (said.filter((word) => word.startsWith('go on')).length === 3) all.resolve()
      },
    })
    work.came(flow('a'), MiB / 2)
    for (const name of ['b', 'c', 'd']) work.came(flow(name), 1)
    expect(said).toEqual(['hold b', 'hold c', 'hold d'])
    await all.promise
    expect(said.slice(3)).toEqual(['go on b', 'go on c', 'go on d'])
  })
})
