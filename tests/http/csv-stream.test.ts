import { expect, test } from 'bun:test'
import { MemoryBudget } from '../../src/host/budget.ts'
import { csvStream, operators } from '../../src/http/frame/csv.ts'

const MiB = 1024 * 1024
const memory = new MemoryBudget(8 * MiB, 4 * MiB)
const owner = { memory, keeperId: operators }

const text = (value: Uint8Array | undefined) => new TextDecoder().decode(value)

test('§32: a table goes on over pages without a row', async () => {
  async function* pages() {
    yield []
    yield [['1'], ['2']]
    yield []
    yield [['3']]
    yield []
  }
  expect(await new Response(csvStream(['n'], pages(), owner)).text()).toBe('"n"\r\n"1"\r\n"2"\r\n"3"\r\n')
})

test('§32: a table whose client leaves is searched for no further, however little was found', async () => {
  let searches = 0
  const several = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  async function* pages(): AsyncGenerator<readonly (readonly string[])[]> {
    try {
      for (;;) {
        // As a query would, it lets others have their turn.
        await new Promise((resolve) => setImmediate(resolve))
        if (++searches === 5) several.resolve()
        yield []
      }
    } finally {
      ended.resolve()
    }
  }
  const reader = csvStream(['n'], pages(), owner).getReader()
  await reader.read()
  const waiting = reader.read()
  await several.promise
  await reader.cancel()
  await ended.promise
  expect(text((await waiting).value)).toBe('')
})

test('§17: a page of a table counts until its client has taken it, and an operator’s table breaks off where there is no memory', async () => {
  const page = [['x'.repeat(MiB)]]
  async function* pages() {
    yield page
    yield page
  }
  const reader = csvStream(['n'], pages(), owner).getReader()
  await reader.read()
  await reader.read()
  expect(memory.bytes).toBeGreaterThanOrEqual(MiB)
  await reader.cancel()
  expect(memory.bytes).toBe(0)
  async function* huge() {
    yield [['x'.repeat(5 * MiB)]]
  }
  const broken = new Response(csvStream(['n'], huge(), owner)).text()
  expect(await broken.catch((error: { readonly code?: string }) => error.code)).toBe('rate_limited')
  expect(memory.bytes).toBe(0)
  expect(memory.refusals).toEqual({ refused: 0, ended: 1 })
})

test('§17: a table that cannot be read on keeps nothing', async () => {
  async function* pages() {
    yield [['x'.repeat(MiB)]]
    throw new Error('the database is away')
  }
  const all = new Response(csvStream(['n'], pages(), owner)).text()
  expect(await all.catch((error: Error) => error.message)).toBe('the database is away')
  expect(memory.bytes).toBe(0)
})
