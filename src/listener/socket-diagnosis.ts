import { dlopen, FFIType, ptr } from 'bun:ffi'
import type { OwnSocket } from './own-sockets.ts'

const { i32, i64, u64, ptr: pointer } = FFIType
const symbols = {
  socket: { args: [i32, i32, i32], returns: i32 },
  send: { args: [i32, pointer, u64, i32], returns: i64 },
  recv: { args: [i32, pointer, u64, i32], returns: i64 },
  close: { args: [i32], returns: i32 },
} as const

/** `AF_NETLINK`, `SOCK_RAW | SOCK_CLOEXEC`, `NETLINK_SOCK_DIAG`. */
const netlink = [16, 0x8_0003, 4] as const
const dontWait = 0x40
const messageHeadBytes = 16
/** `struct inet_diag_req_v2`. */
const askBytes = 56
const sockDiagByFamily = 20
/** `NLM_F_REQUEST`, and `NLM_F_DUMP`: all that fit. */
const requestDump = 0x301
const [messageError, messageDone] = [2, 3]
const tcp = 6
const handshakingOnly = 1 << 3
/** `AF_INET`, `AF_INET6`: at a listener of IPv6 those of IPv4 are of its family, too. */
const families: Readonly<Record<OwnSocket['family'], number>> = { ipv4: 2, ipv6: 10 }
const repliesMax = 64

let library: ReturnType<typeof openLibrary> | undefined

function openLibrary() {
  if (process.platform !== 'linux') return null
  try {
    return dlopen('libc.so.6', symbols).symbols
  } catch {
    return null
  }
}

function question(port: number, family: OwnSocket['family']): Uint8Array {
  const bytes = new Uint8Array(messageHeadBytes + askBytes)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, bytes.length, true)
  view.setUint16(4, sockDiagByFamily, true)
  view.setUint16(6, requestDump, true)
  view.setUint8(16, families[family])
  view.setUint8(17, tcp)
  view.setUint32(20, handshakingOnly, true)
  view.setUint16(24, port)
  return bytes
}

const reply = new Uint8Array(32 * 1024)
const replyView = new DataView(reply.buffer)

/** What the messages of one reply say; null: more are to come. */
function readReply(bytes: number): boolean | 'refused' | null {
  for (let at = 0; at + messageHeadBytes <= bytes; ) {
    const kind = replyView.getUint16(at + 4, true)
    if (kind === sockDiagByFamily) return true
    if (kind === messageDone) return false
    if (kind === messageError) return 'refused'
    // Each begins at a multiple of four bytes.
    at += Math.max(messageHeadBytes, (replyView.getUint32(at, true) + 3) & ~3)
  }
  return null
}

/**
 * Whether a connection to this port is being made in this network namespace, as the kernel says it; null: it does not say so
 * here. A question takes 0.4 ms where the table of all sockets takes 4 to 10.
 */
export function handshakingAt(port: number, family: OwnSocket['family']): boolean | null {
  library ??= openLibrary()
  const libc = library
  if (libc === null) return null
  const descriptor = libc.socket(...netlink)
  if (descriptor < 0) return null
  try {
    const asked = question(port, family)
    if (Number(libc.send(descriptor, ptr(asked), asked.length, 0)) !== asked.length) return null
    for (let replies = 0; replies < repliesMax; replies++) {
      const bytes = Number(libc.recv(descriptor, ptr(reply), reply.length, dontWait))
      if (bytes <= 0) return null
      const says = readReply(bytes)
      if (says !== null) return says === 'refused' ? null : says
    }
    return null
  } finally {
    libc.close(descriptor)
  }
}
