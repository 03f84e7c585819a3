import { expect, test } from 'bun:test'
import { createSocket } from 'node:dgram'
import { broadcastTargets, magicPacket, packetTarget, sendMagicPacket } from '../../src/host/magic-packet.ts'

test('§39: a magic packet is six times ff and sixteen times the address, then the password', () => {
  const packet = magicPacket('3c:7c:3f:01:02:03', null)
  expect(packet.toString('hex')).toBe('ff'.repeat(6) + '3c7c3f010203'.repeat(16))
  expect(magicPacket('3c:7c:3f:01:02:03', '0a:0b:0c:0d:0e:0f').toString('hex')).toEndWith('3c7c3f0102030a0b0c0d0e0f')
})

const card = (cidr: string, more: object = {}) =>
  ({ address: cidr.split('/')[0], netmask: '', family: 'IPv4', mac: '', internal: false, cidr, ...more }) as never

test('§39: everybody in each network of the computer is told, and its own loopback is none', () => {
  const hosts = broadcastTargets({
    lan: [card('192.168.1.20/24'), card('fe80::1/64', { family: 'IPv6' })],
    wide: [card('10.1.2.3/20')],
    one: [card('10.9.9.9/32')],
    lo: [card('127.0.0.1/8', { internal: true })],
  }).map(({ host, port }) => `${host}:${port}`)
  expect(hosts).toEqual(['255.255.255.255:9', '192.168.1.255:9', '10.1.15.255:9'])
})

test('§39: targets are IPv4 addresses', () => {
  expect(packetTarget('192.168.1.255')).toEqual({ host: '192.168.1.255', port: 9 })
  expect(packetTarget('192.168.1.255:7')).toEqual({ host: '192.168.1.255', port: 7 })
  for (const text of ['', 'box.local', '1.2.3.400', '1.2.3.4:0', '1.2.3.4:70000', '1.2.3.4:9:9'])
    expect(packetTarget(text)).toBeNull()
})

test('§39: a packet reaches a broadcast address, and a network that takes none does not hold the others up', async () => {
  const socket = createSocket('udp4')
  await new Promise<void>((resolve) => socket.bind(0, '0.0.0.0', resolve))
  const heard = new Promise<Buffer>((resolve) => socket.once('message', resolve))
  const { port } = socket.address()
  const targets = [
    { host: '127.255.255.255', port },
    { host: '0.0.0.1', port },
  ]
  const packet = magicPacket('3c:7c:3f:01:02:03', null)
  expect(await sendMagicPacket(packet, targets)).toBeGreaterThanOrEqual(1)
  expect((await heard).equals(packet)).toBe(true)
  socket.close()
  await expect(sendMagicPacket(packet, [])).rejects.toThrow()
})
