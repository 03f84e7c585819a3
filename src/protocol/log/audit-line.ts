import { canonicalJson } from '../json/canonical-json.ts'

/** What a MAC of the audit is of: an event with the one before it, an end of a chain, or what a purge has left of one. */
export type AuditLine = 'approval' | 'command' | 'head' | 'tombstone'

/** The text under the audit's key: HMAC-SHA-256 of it is the MAC (§16). */
export const auditLine = (kind: AuditLine, facts: object): string => `audit-chain-v1\0${kind}\0${canonicalJson(facts)}`

/** The text whose HMAC, cut to 12 hex digits, names the key without revealing anything about it. */
export const keyIdLine = 'key_id\0'
export const keyIdLength = 12
/** Precedes the first event of a writer. */
export const chainStartHex = '00'.repeat(32)
