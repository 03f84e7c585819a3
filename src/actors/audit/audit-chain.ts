import type { ChainHead, Tombstone } from '../../db/queries/audit/audit-chains.ts'
import type { ApprovalEventRow, CommandEventRow } from '../../db/queries/audit/audit-events.ts'
import { type AuditLine, auditLine, chainStartHex, keyIdLength, keyIdLine } from '../../protocol/log/audit-line.ts'
import { hashToken } from '../../secrets.ts'
import { isoTime } from '../../time.ts'

/** The MAC that precedes the first event of a writer. */
export const chainStart = Buffer.from(chainStartHex, 'hex')

/** Names a key without revealing anything about it. */
export function chainKeyId(key: string): string {
  return hashToken(key, keyIdLine).toString('hex').slice(0, keyIdLength)
}

const mac = (key: string, kind: AuditLine, facts: object): Buffer => hashToken(key, auditLine(kind, facts))

type Unsealed<R> = Omit<R, 'mac'>

/**
 * The MAC covers every column of the event and the MAC of the event before. A change to either invalidates all later
 * MACs.
 */
export function eventMac(
  key: string,
  previous: Uint8Array,
  event: Unsealed<ApprovalEventRow> | Unsealed<CommandEventRow>,
): Buffer {
  return mac(key, kindOf(event), { ...eventFacts(event), previous: Buffer.from(previous).toString('hex') })
}

type AnyEvent = Unsealed<ApprovalEventRow> | Unsealed<CommandEventRow>
export const kindOf = (event: AnyEvent): 'approval' | 'command' => ('commandId' in event ? 'command' : 'approval')

/** What the MAC covers of an event, but for the MAC before it. */
export function eventFacts(event: AnyEvent): object {
  const { mac: _, createdAt, ...facts } = event as ApprovalEventRow
  return { ...facts, createdAt: isoTime(createdAt) }
}

export function headProof(key: string, head: Omit<ChainHead, 'proof'>): Buffer {
  const { writerId, ordinal, keyId, seq, lastAt } = head
  return mac(key, 'head', { writerId, ordinal, keyId, seq, mac: head.mac.toString('hex'), lastAt: isoTime(lastAt) })
}

export function tombstoneFacts({ writerId, seq, mac: last, runId, purgedAt, keyId }: Omit<Tombstone, 'proof'>): object {
  return { writerId, seq, mac: last.toString('hex'), runId, purgedAt: isoTime(purgedAt), keyId }
}

export function tombstoneProof(key: string, stone: Omit<Tombstone, 'proof'>): Buffer {
  return mac(key, 'tombstone', tombstoneFacts(stone))
}
