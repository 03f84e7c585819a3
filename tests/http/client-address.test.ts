import { expect, test } from 'bun:test'
import { createClientAddress } from '../../src/http/frame/client-address.ts'

const from = (peer: string) => ({ requestIP: () => ({ address: peer }) })
const asked = (forwarded?: string) =>
  new Request('http://localhost/', forwarded === undefined ? {} : { headers: { 'x-forwarded-for': forwarded } })

test('§25: without trusted proxies X-Forwarded-For counts for nothing', () => {
  expect(createClientAddress([])(asked('1.1.1.1'), from('9.9.9.9'))).toBe('9.9.9.9')
  expect(createClientAddress(['10.0.0.1'])(asked('1.1.1.1'), from('9.9.9.9'))).toBe('9.9.9.9')
})

test('§25: from a trusted proxy the last address that is no proxy counts, not what the client wrote before it', () => {
  const address = createClientAddress(['10.0.0.0/8', 'fd00::/8', '192.168.1.1'])
  const cases = [
    ['7.7.7.7', '10.1.2.3', '7.7.7.7'],
    ['6.6.6.6, 7.7.7.7', '10.1.2.3', '7.7.7.7'],
    ['6.6.6.6, 7.7.7.7, 10.9.9.9, 192.168.1.1', '10.1.2.3', '7.7.7.7'],
    ['7.7.7.7', '::ffff:10.1.2.3', '7.7.7.7'],
    ['2001:db8::1', 'fd00::5', '2001:db8::1'],
    ['10.2.2.2', '10.1.2.3', '10.2.2.2'],
    ['7.7.7.7, nonsense', '10.1.2.3', '10.1.2.3'],
    ['', '10.1.2.3', '10.1.2.3'],
  ] as const
  for (const [forwarded, peer, expected] of cases) {
    expect([forwarded, address(asked(forwarded), from(peer))]).toEqual([forwarded, expected])
  }
})

test('the address of no connection is a constant', () => {
  expect(createClientAddress([])(asked(), null)).toBe('0.0.0.0')
})
