import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/** The file in a data folder or in an agent's folder that its one program keeps open and locked. */
export const lockFiles = { gateway: 'gateway.lock', agent: 'agent.lock' } as const

/** Set in the environment of a gateway's process that a supervisor has started. */
export const childVariable = 'PENSTOCK_PROCESS'
const marksChild = (text: string) => text.startsWith(`${childVariable}=`)

type Owner = keyof typeof lockFiles

/** A program that keeps others from a port. */
export interface PortHolder {
  readonly pid: number
  /** Of its program, as the system knows it. */
  readonly name: string
  /** null: it is neither a gateway with a data folder nor an agent. */
  readonly owner: Owner | null
  readonly folder: string | null
}

interface ProcessFacts {
  readonly name: string
  /** The supervisor's process id if this is one of a gateway's processes; null otherwise. */
  readonly supervisor: number | null
  readonly openFiles: readonly string[]
}

/** The system's facts about its processes, as far as this user may see them. */
export interface ProcessTable {
  /** Process ids. */
  listeners(port: number): readonly number[]
  /** Those that have the file open. */
  openers(file: string): readonly number[]
  /** null: there is no such process, or it is another user's. */
  facts(pid: number): ProcessFacts | null
}

const lsofWaitMs = 5_000
const tcpTables = ['/proc/net/tcp', '/proc/net/tcp6'] as const
const listenState = '0A'

function read<T>(look: () => T, absent: T): T {
  try {
    return look()
  } catch {
    return absent
  }
}

/** Numbers of the sockets that listen on a port. */
function listeningSockets(port: number): ReadonlySet<string> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = tcpTables.flatMap((file) =>
    read(() => readFileSync(file, 'utf8'), '')
      .split('\n')
      .slice(1),
  )
  const sockets = rows.flatMap((row) => {
    const [, local = '', , state, , , , , , inode = ''] = row.trim().split(/\s+/)
    return local.endsWith(wanted) && state === listenState ? [`socket:[${inode}]`] : []
  })
  return new Set(sockets)
}

const openFilesOf = (pid: number): readonly string[] =>
  read(() => readdirSync(`/proc/${pid}/fd`), []).flatMap((fd) =>
    read(() => [readlinkSync(`/proc/${pid}/fd/${fd}`)], []),
  )

const allProcesses = (): readonly number[] =>
  read(() => readdirSync('/proc'), [])
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

/** Linux. */
export const procTable: ProcessTable = {
  listeners(port) {
    const sockets = listeningSockets(port)
    if (sockets.size === 0) return []
    return allProcesses().filter((pid) => openFilesOf(pid).some((file) => sockets.has(file)))
  },
  openers: (wanted) => allProcesses().filter((pid) => openFilesOf(pid).includes(wanted)),
  facts(pid) {
    const status = read(() => readFileSync(`/proc/${pid}/status`, 'utf8'), '')
    const [, name] = /^Name:\t(.*)$/m.exec(status) ?? []
    const [, parent] = /^PPid:\t(\d+)$/m.exec(status) ?? []
    if (name === undefined) return null
    const isChild = read(() => readFileSync(`/proc/${pid}/environ`, 'utf8'), '')
      .split('\0')
      .some(marksChild)
    return { name, supervisor: isChild ? Number(parent) : null, openFiles: openFilesOf(pid) }
  },
}

/** Lines of one letter and a value each (`lsof -F`). */
function lsof(...args: readonly string[]): readonly (readonly [string, string])[] {
  const { stdout } = spawnSync('lsof', ['-nP', ...args], { encoding: 'utf8', timeout: lsofWaitMs })
  return (stdout ?? '').split('\n').map((line) => [line.slice(0, 1), line.slice(1)] as const)
}

const pidsOf = (fields: ReturnType<typeof lsof>): readonly number[] =>
  fields.flatMap(([field, value]) => (field === 'p' ? [Number(value)] : []))

/** macOS, and wherever else `lsof` is. */
export const lsofTable: ProcessTable = {
  listeners: (port) => pidsOf(lsof(`-iTCP:${port}`, '-sTCP:LISTEN', '-Fp')),
  openers: (file) => pidsOf(lsof('-Fp', '--', file)),
  facts(pid) {
    const fields = lsof('-p', String(pid), '-FcRn')
    const first = (wanted: string) => fields.find(([field]) => field === wanted)?.[1]
    const name = first('c')
    if (name === undefined) return null
    const openFiles = fields.flatMap(([field, value]) => (field === 'n' ? [value] : []))
    const { stdout } = spawnSync('ps', ['eww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    const isChild = (stdout ?? '').split(' ').some(marksChild)
    return { name, supervisor: isChild ? Number(first('R')) : null, openFiles }
  },
}

/** The holder of a folder's lock: the process itself, or its supervisor. */
function lockOf(table: ProcessTable, pid: number): Pick<PortHolder, 'pid' | 'owner' | 'folder'> | null {
  const facts = table.facts(pid)
  if (facts === null) return null
  for (const owner of Object.keys(lockFiles) as Owner[]) {
    const lock = facts.openFiles.find((file) => basename(file) === lockFiles[owner])
    if (lock !== undefined) return { pid, owner, folder: dirname(lock) }
  }
  return facts.supervisor === null || facts.supervisor === pid ? null : lockOf(table, facts.supervisor)
}

const ownTable = process.platform === 'linux' ? procTable : lsofTable
const others = (pids: readonly number[]) => pids.filter((pid) => pid !== process.pid)

/** The process that has locked an agent's folder; null if none is visible to this user. */
export const fileHolder = (file: string, table = ownTable): number | null => others(table.openers(file))[0] ?? null

/** null: nothing that this user may see. */
export function portHolder(port: number, table = ownTable): PortHolder | null {
  const pids = others(table.listeners(port))
  for (const pid of pids) {
    const lock = lockOf(table, pid)
    if (lock !== null) return { name: table.facts(pid)?.name ?? '', ...lock }
  }
  const [pid] = pids
  const facts = pid === undefined ? null : table.facts(pid)
  return pid === undefined || facts === null ? null : { pid, name: facts.name, owner: null, folder: null }
}

/** The message for the operator about a port in use. */
export function portInUse(port: number): string {
  const holder = portHolder(port)
  if (holder === null) return `Port ${port} is in use. Stop what listens there`
  const { pid, name, owner, folder } = holder
  if (owner === 'gateway')
    return `Port ${port} is in use by another gateway: process ${pid}, data folder ${folder}. Stop it`
  if (owner === 'agent') return `Port ${port} is in use by a node agent: process ${pid}, folder ${folder}. Stop it`
  return `Port ${port} is in use by process ${pid} (${name}). Stop it`
}
