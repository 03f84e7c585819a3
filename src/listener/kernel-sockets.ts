import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** As the kernel's table of TCP sockets says it. */
export interface KernelSocket {
  readonly state: 'listening' | 'handshaking' | 'open' | 'closing'
  /** Of a listening socket: connections not yet accepted. */
  readonly waiting: number
  /** `0` of a connection that is not accepted yet. */
  readonly inode: string
}

/** Whether the tables below can be read here. */
export const seesSockets = process.platform === 'linux'

const states: Readonly<Record<string, KernelSocket['state']>> = { '0A': 'listening', '03': 'handshaking', '01': 'open' }

/** All sockets of this computer whose own port this is; none where they cannot be seen. */
export function socketsAt(port: number): readonly KernelSocket[] {
  if (!seesSockets) return []
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => tableAt(file).split('\n'))
  return rows.flatMap((row) => {
    const [, local = '', , state = '', queues = '', , , , , inode = ''] = row.trim().split(/\s+/)
    if (!local.endsWith(suffix)) return []
    return [{ state: states[state] ?? 'closing', waiting: Number.parseInt(queues.split(':')[1] ?? '0', 16), inode }]
  })
}

/** A kernel without IPv6 has no second table. */
function tableAt(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The sockets of this process: descriptors by inode. */
export function ownSockets(): ReadonlyMap<string, number> {
  const found = new Map<string, number>()
  if (!seesSockets) return found
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
      if (inode !== undefined) found.set(inode, Number(fd))
    } catch {
      // It was closed meanwhile.
    }
  }
  return found
}
