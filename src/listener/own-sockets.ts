import { dlopen, FFIType, ptr } from 'bun:ffi'
import { readdirSync } from 'node:fs'

/** A TCP socket of this process. */
export interface OwnSocket {
  readonly descriptor: number
  readonly family: 'ipv4' | 'ipv6'
  readonly state: 'listening' | 'open' | 'other'
  /** Of a listening socket: connections not yet accepted. */
  readonly waiting: number
}

export interface SocketOption {
  readonly level: number
  readonly option: number
  readonly value: Uint8Array
  readonly bytes: number
}

const { i32, u32, ptr: pointer } = FFIType
const symbols = {
  getsockname: { args: [i32, pointer, pointer], returns: i32 },
  getsockopt: { args: [i32, i32, i32, pointer, pointer], returns: i32 },
  setsockopt: { args: [i32, i32, i32, pointer, u32], returns: i32 },
} as const

/** null: this program cannot see its sockets, on other systems and beside other libraries of C. */
function openLibrary() {
  if (process.platform !== 'linux') return null
  try {
    return dlopen('libc.so.6', symbols).symbols
  } catch {
    return null
  }
}

const libc = openLibrary()
export const seesSockets = libc !== null

const families: Readonly<Record<number, OwnSocket['family']>> = { 2: 'ipv4', 10: 'ipv6' }
const tcpLevel = 6
const tcpInfo = 11
const states: Readonly<Record<number, OwnSocket['state']>> = { 1: 'open', 10: 'listening' }
/** Of `struct tcp_info`: its state is the first byte; `tcpi_unacked` of a listening socket counts what waits to be accepted. */
const unackedAt = 24

const address = new Uint8Array(128)
const info = new Uint8Array(unackedAt + 4)
const length = new Uint32Array(1)
const addressView = new DataView(address.buffer)
const infoView = new DataView(info.buffer)

function socketOf(descriptor: number, ports: readonly number[]): OwnSocket | null {
  if (libc === null) return null
  length[0] = address.length
  if (libc.getsockname(descriptor, ptr(address), ptr(length)) !== 0) return null
  const family = families[addressView.getUint16(0, true)]
  if (family === undefined || !ports.includes(addressView.getUint16(2))) return null
  length[0] = info.length
  if (libc.getsockopt(descriptor, tcpLevel, tcpInfo, ptr(info), ptr(length)) !== 0) return null
  return { descriptor, family, state: states[info[0] ?? 0] ?? 'other', waiting: infoView.getUint32(unackedAt, true) }
}

/** Those whose own port is one of these. The kernel's table of all sockets says the same, and takes milliseconds. */
export function ownSocketsAt(ports: readonly number[]): readonly OwnSocket[] {
  if (libc === null || ports.length === 0) return []
  return readdirSync('/proc/self/fd').flatMap((name) => socketOf(Number(name), ports) ?? [])
}

/** Sets an option of this process's listeners on a port. False: not done. */
export function setListenerOption(port: number, { level, option, value, bytes }: SocketOption): boolean {
  const listeners = ownSocketsAt([port]).filter(({ state }) => state === 'listening')
  const done = listeners.map(({ descriptor }) => libc?.setsockopt(descriptor, level, option, ptr(value), bytes))
  return done.length > 0 && done.every((result) => result === 0)
}
