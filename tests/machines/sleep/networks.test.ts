import { expect, test } from 'bun:test'
import { shareNetwork } from '../../../src/machines/sleep/networks.ts'

test('§39: networks are the same where one holds an address of the other', () => {
  expect(shareNetwork(['192.168.1.20/24'], ['192.168.1.7/24'])).toBe(true)
  expect(shareNetwork(['192.168.1.20'], ['10.0.0.1/8', '192.168.1.7/24'])).toBe(true)
  expect(shareNetwork(['192.168.2.20'], ['192.168.1.7/24'])).toBe(false)
  expect(shareNetwork(['192.168.2.20/16'], ['192.168.1.7/24'])).toBe(true)
  expect(shareNetwork(['255.255.255.255/32'], ['0.0.0.0/0'])).toBe(true)
})

test('§39: a name, an IPv6 address or nothing is in no network', () => {
  for (const place of ['box.local', '[fe80::1]', '300.1.1.1', '192.168.1', ''])
    expect(shareNetwork([place], ['192.168.1.7/24'])).toBe(false)
  expect(shareNetwork([], ['192.168.1.7/24'])).toBe(false)
  expect(shareNetwork(['192.168.1.20'], [])).toBe(false)
})
