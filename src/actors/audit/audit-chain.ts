import type { ChainHead, Tombstone } from '../../db/queries/audit/audit-chains.ts'
import type { ApprovalEventRow, CommandEventRow } from '../../db/queries/audit/audit-events.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { hashToken } from '../../secrets.ts'
import { isoTime } from '../../time.ts'

/** The MAC that precedes the first event of a writer. */
export const chainStart = Buffer.alloc(32)

const keyIdLength = 12

/** Names a key without revealing anything about it. */
export function chainKeyId(key: string): string {
  return hashToken(key, 'key_id\0').toString('hex').slice(0, keyIdLength)
}

const mac = (key: string, kind: string, facts: object): Buffer =>
  hashToken(key, `audit-chain-v1\0${kind}\0${canonicalJson(facts)}`)

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
  const { mac: _, createdAt, ...facts } = event as ApprovalEventRow
  const kind = 'commandId' in event ? 'command' : 'approval'
  return mac(key, kind, { ...facts, createdAt: isoTime(createdAt), previous: Buffer.from(previous).toString('hex') })
}

export function headProof(key: string, head: Omit<ChainHead, 'proof'>): Buffer {
  const { writerId, ordinal, keyId, seq, lastAt } = head
  return mac(key, 'head', { writerId, ordinal, keyId, seq, mac: head.mac.toString('hex'), lastAt: isoTime(lastAt) })
}

export function tombstoneProof(key: string, stone: Omit<Tombstone, 'proof'>): Buffer {
  const { writerId, seq, runId, purgedAt, keyId } = stone
  return mac(key, 'tombstone', {
    writerId,
    seq,
    mac: stone.mac.toString('hex'),
    runId,
    purgedAt: isoTime(purgedAt),
    keyId,
  })
}
