import { expect, test } from 'bun:test'
import { ServerLooks } from '../../src/discovery/server-looks.ts'

test('§39: a look that may not begin asks nobody where model servers are', async () => {
  const looks = new ServerLooks()
  const { signal } = new AbortController()
  const listening = Promise.withResolvers<readonly []>()
  const first = looks.look({ places: () => listening.promise, signal })
  let askedTwice = false
  const second = looks.look({
    places: async () => {
      askedTwice = true
      return []
    },
    signal,
  })
  await expect(second).rejects.toThrow('Another look')
  expect(askedTwice).toBe(false)
  listening.resolve([])
  expect(await first).toEqual({ asked: 0, found: [] })
})
