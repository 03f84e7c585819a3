import { ptr } from 'bun:ffi'
import { setListenerOption } from './own-sockets.ts'

const socketLevel = 1
const attachFilter = 26
const tcpLevel = 6
const deferAccept = 9
const instructionBytes = 8
/** `struct sock_fprog`: a count, padding, a pointer to the instructions, which stand behind it here. */
const programBytes = 16
const pointerAt = 8

/** Of the classic packet filter: code, jump where true, jump where false, operand. The packet begins at its TCP header. */
const dropFirstPackets: readonly (readonly [number, number, number, number])[] = [
  [0x30, 0, 0, 13], // the byte of the flags
  [0x54, 0, 0, 0x12], // SYN and ACK of it
  [0x15, 0, 1, 0x02], // SYN alone opens a connection
  [0x06, 0, 0, 0],
  [0x06, 0, 0, 0xffff_ffff],
]

function filterProgram(): Uint8Array {
  const bytes = new Uint8Array(programBytes + dropFirstPackets.length * instructionBytes)
  const view = new DataView(bytes.buffer)
  view.setUint16(0, dropFirstPackets.length, true)
  view.setBigUint64(pointerAt, BigInt(ptr(bytes) + programBytes), true)
  for (const [nth, [code, yes, no, operand]] of dropFirstPackets.entries()) {
    const at = programBytes + nth * instructionBytes
    view.setUint16(at, code, true)
    view.setUint8(at + 2, yes)
    view.setUint8(at + 3, no)
    view.setUint32(at + 4, operand, true)
  }
  return bytes
}

/**
 * Bun lets the kernel keep a connection until its first byte has come (`TCP_DEFER_ACCEPT`), and the end of the listener
 * resets those that wait. From now on each is accepted as soon as it is made; for those that wait already the kernel asks
 * their clients again within a second. False: not done.
 */
export const acceptAtOnce = (port: number): boolean =>
  setListenerOption(port, { level: tcpLevel, option: deferAccept, value: new Uint8Array(4), bytes: 4 })

/**
 * No new connection reaches this process's listeners on `port`, while those that are being made are finished. The kernel
 * drops what would open one, and a client tries again within a second: once this process has closed its listener, at
 * another process that shares the port. Closing at once would reset what waits to be accepted. False: not done.
 */
export const refuseConnections = (port: number): boolean =>
  setListenerOption(port, { level: socketLevel, option: attachFilter, value: filterProgram(), bytes: programBytes })
