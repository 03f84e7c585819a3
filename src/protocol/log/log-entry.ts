import { brand } from '../../brand.ts'
import { loggedKinds, loggedName } from '../money/logged.ts'
import { leafHash, type TreeHash } from './merkle-log.ts'

/** What the log holds, each as one hash that tells a stranger nothing. */
export const logEntryKinds = [
  'receipt',
  'audit',
  ...loggedKinds.map(loggedName),
  'books',
  'batch',
  'settled',
  'fork',
  'cutoff',
  'marks',
  'payee',
] as const
export type LogEntryKind = (typeof logEntryKinds)[number]

export interface LogEntry {
  readonly kind: LogEntryKind
  /** `0x` and 64 hex digits. */
  readonly hash: string
}

const head = `${brand}-log-v1`
const pattern = new RegExp(`^${head}:(${logEntryKinds.join('|')}):(0x[0-9a-f]{64})$`)
const encoder = new TextEncoder()

/** The entry itself: `svc-log-v1:receipt:0x…`. */
export const logEntryText = ({ kind, hash }: LogEntry): string => `${head}:${kind}:${hash}`
export const logEntryBytes = (entry: LogEntry): Uint8Array => encoder.encode(logEntryText(entry))
export const logLeaf = (entry: LogEntry): TreeHash => leafHash(logEntryBytes(entry))

export function parseLogEntry(text: string): LogEntry | null {
  const [, kind, hash] = pattern.exec(text) ?? []
  return kind === undefined || hash === undefined ? null : { kind: kind as LogEntryKind, hash }
}
