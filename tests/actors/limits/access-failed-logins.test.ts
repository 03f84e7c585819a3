import { expect, test } from 'bun:test'
import { createFailedLogins } from '../../../src/actors/limits/failed-logins.ts'

function counter() {
  let now = 1_000_000
  const logins = createFailedLogins({ perMinute: 20, lockoutMs: 300_000, now: () => now })
  return { logins, pass: (ms: number) => (now += ms) }
}
const fail = (logins: ReturnType<typeof createFailedLogins>, times: number, ip = 'a') =>
  Array.from({ length: times }, () => logins.failed(ip))

test('§4: the 21st failure within a minute locks the address for 5 minutes', () => {
  const { logins, pass } = counter()
  expect(new Set(fail(logins, 20))).toEqual(new Set(['refuse']))
  expect(logins.lockedSeconds('a')).toBeNull()
  expect(logins.failed('a')).toBe('locked')
  expect(logins.lockedSeconds('a')).toBe(300)
  expect(logins.failed('b')).toBe('refuse')
  pass(299_999)
  expect(logins.failed('a')).toBe('locked')
  expect(logins.lockedSeconds('a')).toBe(1)
  pass(1)
  expect(logins.lockedSeconds('a')).toBeNull()
  expect(new Set(fail(logins, 20))).toEqual(new Set(['refuse']))
})

test('§4: 20 failures a minute, minute after minute, lock nobody; a burst over the edge of a minute does', () => {
  const { logins, pass } = counter()
  for (let failure = 0; failure < 200; failure++) {
    expect(logins.failed('steady')).toBe('refuse')
    pass(3_100)
  }
  pass(600_000)
  logins.failed('edge')
  pass(58_000)
  expect(new Set(fail(logins, 15, 'edge'))).toEqual(new Set(['refuse']))
  pass(3_000)
  expect(fail(logins, 15, 'edge')).toContain('locked')
})

test('§4: the number of addresses is bounded; a flood of others forgets the oldest', () => {
  const { logins } = counter()
  fail(logins, 21, 'first')
  expect(logins.lockedSeconds('first')).not.toBeNull()
  for (let address = 0; address < 20_000; address++) logins.failed(`x${address}`)
  expect(logins.lockedSeconds('first')).toBeNull()
})
