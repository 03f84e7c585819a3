import { expect, test } from 'bun:test'
import { addressesOf, isPrivateAddress } from '../../src/discovery/address-range.ts'

test('§39: a range is an IPv4 network without its name and its broadcast, or one address', () => {
  const home = addressesOf('192.168.1.77/24', false)
  expect([home.length, home[0], home.at(-1)]).toEqual([254, '192.168.1.1', '192.168.1.254'])
  expect(addressesOf(' 10.0.0.5 ', false)).toEqual(['10.0.0.5'])
  expect(addressesOf('10.0.0.4/31', false)).toEqual(['10.0.0.4', '10.0.0.5'])
  expect(addressesOf('10.0.0.4/30', false)).toEqual(['10.0.0.5', '10.0.0.6'])
  expect(addressesOf('172.16.4.0/22', false).length).toBe(1_022)
})

test('§39: what is no range, too large or not one’s own is refused in words', () => {
  for (const [range, words] of [
    ['', 'such as 192.168.1.0/24'],
    ['localhost', 'such as 192.168.1.0/24'],
    ['192.168.1.0/33', 'such as 192.168.1.0/24'],
    ['192.168.1.0/24/24', 'such as 192.168.1.0/24'],
    ['192.168.1.0/-1', 'such as 192.168.1.0/24'],
    ['192.168.1.256', 'such as 192.168.1.0/24'],
    ['fd00::/64', 'IPv6'],
    ['192.168.0.0/21', 'has 2048'],
    ['10.0.0.0/8', 'at most 1024'],
    ['203.0.113.0/24', 'addresses of the internet'],
    ['8.8.8.8', 'addresses of the internet'],
    ['169.254.169.254', 'No computer serves models'],
  ] as const) {
    expect([range, addressesOf(range, false)]).toEqual([range, expect.stringContaining(words)])
  }
  expect(addressesOf('203.0.113.9', true)).toEqual(['203.0.113.9'])
  for (const never of ['169.254.169.254', '0.0.0.0/24', '224.0.0.1', '255.255.255.255']) {
    expect(addressesOf(never, true)).toContain('No computer serves models')
  }
})

test('private networks are those of homes, offices, overlays and this computer', () => {
  for (const one of ['10.1.2.3', '172.31.0.1', '192.168.0.1', '100.101.1.1', '127.0.0.1']) {
    expect(isPrivateAddress(one)).toBe(true)
  }
  for (const one of ['172.32.0.1', '192.169.0.1', '100.128.0.1', '8.8.8.8', '::1', 'box.local']) {
    expect(isPrivateAddress(one)).toBe(false)
  }
})
