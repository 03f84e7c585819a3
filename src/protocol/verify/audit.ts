import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { type AuditLine, auditLine, chainStartHex, keyIdLength, keyIdLine } from '../log/audit-line.ts'
import { auditHeadHash } from '../log/entry-facts.ts'
import { type Fields, fieldsOf, hashableJson, listOf, textOf, wholeOf } from './given.ts'
import { logged } from './logged.ts'
import { type Check, check, type Trust, type Verdict, verdict } from './trust.ts'

const macOf = (key: string, text: string) => bytesToHex(hmac(sha256, utf8ToBytes(key), utf8ToBytes(text)))
const lineMac = (key: string, kind: AuditLine, facts: object) => macOf(key, auditLine(kind, facts))
const keyIdOf = (key: string) => macOf(key, keyIdLine).slice(0, keyIdLength)

interface Place {
  readonly seq: number
  readonly mac: string
}
const placeOf = (value: unknown): Place => {
  const { seq, mac } = fieldsOf(value)
  return { seq: wholeOf(seq), mac: textOf(mac) ?? '' }
}

/** Where a chain begins: at its start, or at what a purge has left and sealed. */
function beginCheck(writer: string, begins: Fields, keys: ReadonlyMap<string, string>): Check {
  const name = `begin of ${writer}`
  const { seq, mac } = placeOf(begins)
  if (begins.tombstone === null || begins.tombstone === undefined) {
    return check(
      name,
      seq === 0 && mac === chainStartHex,
      seq === 0 ? 'its first event' : 'events before it are missing',
    )
  }
  const { facts, proof } = fieldsOf(begins.tombstone)
  const fields = fieldsOf(facts)
  const key = keys.get(String(fields.keyId))
  const holds =
    key !== undefined &&
    lineMac(key, 'tombstone', fields) === proof &&
    fields.writerId === writer &&
    fields.seq === seq &&
    fields.mac === mac
  return check(name, holds, holds ? `purged up to event ${seq}` : 'what a purge has left does not hold')
}

/** Each event with the one before it, up to the end that the file names. Resolves to the first fault; null: none. */
function faultOf(chain: Fields, key: string, macs: Map<number, string>): string | null {
  let { seq, mac: previous } = placeOf(chain.begins)
  macs.set(seq, previous)
  for (const one of listOf(chain.events)) {
    const { kind, facts, mac } = fieldsOf(one)
    const fields = fieldsOf(typeof facts === 'string' ? hashableJson(facts) : facts)
    seq++
    if (fields.seq !== seq || fields.writerId !== chain.writer_id) return `event ${seq} is missing`
    if (kind !== 'approval' && kind !== 'command') return `event ${seq} is of no kind`
    if (lineMac(key, kind, { ...fields, previous }) !== mac) return `event ${seq} has changed`
    previous = String(mac)
    macs.set(seq, previous)
  }
  const end = placeOf(chain)
  if (seq < end.seq) return `event ${seq + 1} is missing`
  return end.seq === seq && end.mac === previous ? null : 'the end is not that of its events'
}

/** That the log holds an end of this chain, and that the file has that very end. */
function logChecks(writer: string, chain: Fields, macs: ReadonlyMap<number, string>, given: Fields, trust: Trust) {
  const end = placeOf(chain.logged)
  const hash = auditHeadHash({ writerId: writer, ordinal: wholeOf(chain.ordinal), seq: end.seq, mac: end.mac })
  const place = logged('audit', hash, fieldsOf(chain.logged).log_proof, given, trust)
  // An end from before the purge covers events that no longer exist.
  const same = macs.get(end.seq) === end.mac
  const detail = same ? `the log holds its end at event ${end.seq}` : 'the end in the log is not in the file'
  return { checks: [check(`end of ${writer}`, same, detail), ...place.checks], checkpoint: place.checkpoint }
}

/** Ordinals count the writers: one that is missing was taken out. */
function writersCheck(chains: readonly Fields[]): Check {
  const ordinals = chains.map(({ ordinal }) => wholeOf(ordinal)).sort((a, b) => a - b)
  const gap = ordinals.findIndex((ordinal, at) => ordinal !== at + 1)
  return check(
    'writers',
    gap === -1 && ordinals.length > 0,
    gap === -1 ? `${ordinals.length}` : `writer ${gap + 1} is missing`,
  )
}

/** What `audit export` writes. */
export function verifyAudit(given: Fields, trust: Trust): Verdict {
  const chains = listOf(given.chains).map(fieldsOf)
  const keys = new Map(trust.auditKeys.map((key) => [keyIdOf(key), key]))
  const checks: Check[] = [writersCheck(chains)]
  let checkpoint: Verdict['checkpoint'] = null
  for (const chain of chains) {
    const writer = textOf(chain.writer_id) ?? ''
    const key = keys.get(String(chain.key_id))
    const macs = new Map<number, string>()
    if (key === undefined) {
      checks.push(check(`chain of ${writer}`, false, 'its key is not known here: give it with --audit-key'))
      continue
    }
    checks.push(beginCheck(writer, fieldsOf(chain.begins), keys))
    const fault = faultOf(chain, key, macs)
    checks.push(check(`chain of ${writer}`, fault === null, fault ?? `${listOf(chain.events).length} events hold`))
    const place = logChecks(writer, chain, macs, given, trust)
    checks.push(...place.checks)
    if ((place.checkpoint?.size ?? 0) >= (checkpoint?.size ?? 0)) checkpoint = place.checkpoint
  }
  return verdict('audit', `${chains.length} chains`, checks, checkpoint)
}
