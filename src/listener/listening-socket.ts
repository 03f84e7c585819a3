import { dlopen, FFIType, ptr } from 'bun:ffi'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const socketLevel = 1
const attachFilter = 26
const listenState = '0A'
const instructionBytes = 8
/** `struct sock_fprog`: a count, padding, a pointer. */
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

function encoded(): Uint8Array {
  const bytes = new Uint8Array(dropFirstPackets.length * instructionBytes)
  const view = new DataView(bytes.buffer)
  for (const [at, [code, yes, no, operand]] of dropFirstPackets.entries()) {
    view.setUint16(at * instructionBytes, code, true)
    view.setUint8(at * instructionBytes + 2, yes)
    view.setUint8(at * instructionBytes + 3, no)
    view.setUint32(at * instructionBytes + 4, operand, true)
  }
  return bytes
}

/** Descriptors of this process that listen on a port. */
function listeningOn(port: number): number[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => readFileSync(file, 'utf8').split('\n'))
  const inodes = rows.flatMap((row) => {
    const [, local = '', , state, , , , , , inode] = row.trim().split(/\s+/)
    return state === listenState && local.endsWith(suffix) ? [`socket:[${inode}]`] : []
  })
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return inodes.includes(readlinkSync(`/proc/self/fd/${fd}`)) ? [Number(fd)] : []
    } catch {
      return []
    }
  })
}

/**
 * No new connection reaches this process's listeners on `port`, while those that are being made are finished. The kernel
 * drops what would open one, and a client tries again within a second: once this process has closed its listener, at
 * another process that shares the port. Closing at once would refuse what waits to be accepted. Linux only; false: not done.
 */
export function refuseConnections(port: number): boolean {
  if (process.platform !== 'linux') return false
  try {
    const libc = dlopen('libc.so.6', {
      setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    })
    const filter = encoded()
    const program = new DataView(new ArrayBuffer(programBytes))
    program.setUint16(0, dropFirstPackets.length, true)
    program.setBigUint64(pointerAt, BigInt(ptr(filter)), true)
    const bytes = new Uint8Array(program.buffer)
    const done = listeningOn(port).map((fd) =>
      libc.symbols.setsockopt(fd, socketLevel, attachFilter, ptr(bytes), programBytes),
    )
    return done.length > 0 && done.every((result) => result === 0)
  } catch {
    return false
  }
}
