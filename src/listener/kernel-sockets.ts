import { readFileSync } from 'node:fs'
import type { OwnSocket } from './own-sockets.ts'

/** As the kernel's table of TCP sockets says it. */
export interface KernelSocket {
  readonly state: 'listening' | 'handshaking' | 'open' | 'closing'
}

const states: Readonly<Record<string, KernelSocket['state']>> = { '0A': 'listening', '03': 'handshaking', '01': 'open' }
/** A listener of IPv6 may take connections of IPv4, too. */
const tables = { ipv4: ['/proc/net/tcp'], ipv6: ['/proc/net/tcp', '/proc/net/tcp6'] } as const

/**
 * All sockets of this computer whose own port this is, also those that no process has accepted; none where they cannot be seen. A look takes
 * 4 to 6 ms for each table and more where it is long: `socket-diagnosis.ts` asks for less.
 */
export function socketsAt(port: number, family: OwnSocket['family']): readonly KernelSocket[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return tables[family].flatMap(tableAt).flatMap((row) => {
    const [, local = '', , state = ''] = row.trim().split(/\s+/)
    return local.endsWith(suffix) ? [{ state: states[state] ?? 'closing' }] : []
  })
}

/** A kernel without IPv6 has no second table. */
function tableAt(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split('\n')
  } catch {
    return []
  }
}
