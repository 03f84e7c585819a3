import { createSocket } from 'node:dgram'

/** Writes the hardware address of each magic packet that comes to everybody on its network. */
const socket = createSocket({ type: 'udp4', reuseAddr: true })
socket.on('message', (packet) => {
  const start = packet.indexOf(Buffer.alloc(6, 0xff))
  if (start === -1 || packet.length < start + 102) return
  const mac = packet.subarray(start + 6, start + 12)
  const isWhole = Array.from({ length: 16 }, (_, copy) => packet.subarray(start + 6 + copy * 6, start + 12 + copy * 6))
  if (!isWhole.every((copy) => copy.equals(mac))) return
  process.stdout.write(`${[...mac].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}\n`)
})
socket.bind(9, () => process.stdout.write('listens\n'))
