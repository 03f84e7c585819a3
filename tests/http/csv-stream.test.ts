import { expect, test } from 'bun:test'
import { csvStream } from '../../src/http/frame/csv.ts'

const text = (value: Uint8Array | undefined) => new TextDecoder().decode(value)

test('§32: a table goes on over pages without a row', async () => {
  async function* pages() {
    yield []
    yield [['1'], ['2']]
    yield []
    yield [['3']]
    yield []
  }
  expect(await new Response(csvStream(['n'], pages())).text()).toBe('"n"\r\n"1"\r\n"2"\r\n"3"\r\n')
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
  const reader = csvStream(['n'], pages()).getReader()
  await reader.read()
  const waiting = reader.read()
  await several.promise
  await reader.cancel()
  await ended.promise
  expect(text((await waiting).value)).toBe('')
})
