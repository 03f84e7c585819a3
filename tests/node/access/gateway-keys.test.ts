import { expect, test } from 'bun:test'
import { createGatewayKeys, verdictsMax } from '../../../src/node/access/gateway-keys.ts'

const never = new AbortController().signal

test('§12: verdicts are bounded: the oldest is asked for again, the newest is not', async () => {
  const asked: string[] = []
  const keys = createGatewayKeys({
    ask: async (key) => {
      asked.push(key)
      return true
    },
  })
  for (let at = 0; at <= verdictsMax; at++) await keys.allows(`key-${at}`, 'm', never)
  asked.length = 0
  await keys.allows(`key-${verdictsMax}`, 'm', never)
  await keys.allows('key-0', 'm', never)
  expect(asked).toEqual(['key-0'])
})

test('a caller who leaves while the gateway is asked is gone, and the failure is told to nobody', async () => {
  const failures: unknown[] = []
  const gone = new AbortController()
  const keys = createGatewayKeys({
    ask: (_, __, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('cut')))),
    onFailure: (error) => failures.push(error),
  })
  const asking = keys.allows('key', 'm', gone.signal)
  gone.abort(new Error('left'))
  await expect(asking).rejects.toThrow('left')
  expect(failures).toEqual([])
})
