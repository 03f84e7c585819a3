import { brand } from '../../brand.ts'
import { logLeaf } from '../log/log-entry.ts'
import { rootOfLeaves, sameHash, type TreeHash, treeHashBytes } from '../log/merkle-log.ts'
import { checkNote, parseNote } from '../log/note.ts'
import { isEarlier, lineageOf } from '../log/origins.ts'
import { promisedWithinMs, type ReadPromise, readPromise } from '../log/promise.ts'
import { decodeBase64, decodeBase64Url } from '../signing/base64.ts'
import { type Fields, fieldsOf, listOf, textOf } from './given.ts'
import { growthIn, logged } from './logged.ts'
import { type Check, check, checkCheckpoint, type Trust, type Verdict, verdict } from './trust.ts'

/** `object` of a file that says what became of one promise. */
export const promiseObject = `${brand}.promise`

const timeOf = (ms: number) => new Date(ms).toISOString()
const dueMs = ({ promised }: ReadPromise) => promised.ms + promisedWithinMs

/** The name of the key that made the promise; null: none that is known here. */
function signerOf({ promised, message, signature }: ReadPromise, { logKeys, verify }: Trust): string | null {
  const bytes = decodeBase64Url(signature)
  const lineage = lineageOf(promised.log)
  const key = logKeys.find(({ name, publicKey }) => {
    return lineageOf(name) === lineage && bytes?.length === 64 && verify(publicKey, message, bytes)
  })
  return key?.name ?? null
}

function promiseCheck(promise: ReadPromise | null, trust: Trust): Check {
  const name = 'promise'
  if (promise === null) return check(name, false, 'it is no promise of a log')
  const signer = signerOf(promise, trust)
  if (signer === null) return check(name, false, 'no key of the log that is known here made it: give it with --log-key')
  return check(name, true, `by ${signer} at ${timeOf(promise.promised.ms)}: in the log by ${timeOf(dueMs(promise))}`)
}

/** The leaf hashes of all entries of a log, in their order; null: the texts are no tiles. */
function leavesIn(texts: readonly unknown[]): readonly TreeHash[] | null {
  const leaves: TreeHash[] = []
  for (const text of texts) {
    const bytes = decodeBase64(textOf(text) ?? '')
    if (bytes === null || bytes.length === 0 || bytes.length % treeHashBytes !== 0) return null
    for (let at = 0; at < bytes.length; at += treeHashBytes) leaves.push(bytes.subarray(at, at + treeHashBytes))
  }
  return leaves
}

const holds = (leaves: readonly TreeHash[], hash: string): boolean => {
  const leaf = logLeaf({ kind: 'receipt', hash })
  return leaves.some((one) => one[0] === leaf[0] && sameHash(one, leaf))
}

/**
 * That the checkpoint is from after the time that the promise gave: a known witness signed it then, or the log itself has promised
 * one of its receipts then. A file's own word does not count.
 */
function timeCheck(
  promise: ReadPromise,
  note: string,
  given: Fields,
  leaves: readonly TreeHash[],
  trust: Trust,
): Check {
  const name = 'time'
  const due = dueMs(promise)
  const parsed = parseNote(note)
  const witnessed = (parsed === null ? null : checkNote(parsed, trust.witnessKeys, trust.verify)) ?? []
  const witness = witnessed.find(({ seconds }) => seconds !== null && seconds * 1_000 >= due)
  if (witness !== undefined)
    return check(name, true, `${witness.key.name} signed the checkpoint at ${timeOf((witness.seconds ?? 0) * 1_000)}`)
  const later = readPromise(given.later)
  if (later !== null && lineageOf(later.promised.log) === lineageOf(promise.promised.log)) {
    const { ms, hash } = later.promised
    if (ms >= due && signerOf(later, trust) !== null && holds(leaves, hash)) {
      return check(name, true, `the checkpoint holds a receipt that the log promised at ${timeOf(ms)}`)
    }
  }
  const lacks = `nothing shows that the checkpoint is from after ${timeOf(due)}`
  return check(name, false, `${lacks}: name a witness with --witness, or add a later promise to the file`)
}

/** Evidence that a promise was broken: all entries of the log at a later time, and the promised one is not among them. */
function verifyOmission(promise: ReadPromise | null, given: Fields, omission: Fields, trust: Trust): Verdict {
  const note = textOf(omission.checkpoint) ?? ''
  const made = promiseCheck(promise, trust)
  const { checks, checkpoint } = checkCheckpoint(note, trust, growthIn(given))
  const hash = promise?.promised.hash ?? ''
  const leaves = leavesIn(listOf(omission.leaves))
  const whole =
    checkpoint !== null &&
    leaves !== null &&
    leaves.length === checkpoint.size &&
    sameHash(rootOfLeaves(leaves), checkpoint.root)
  const entries = check('entries', whole, whole ? `all ${checkpoint.size}` : 'they do not give the checkpoint')
  if (promise === null || !whole) return verdict('omission', hash, [made, ...checks, entries], checkpoint)
  const { log } = promise.promised
  const ofLog = lineageOf(log) === lineageOf(checkpoint.origin) && !isEarlier(checkpoint.origin, log)
  const lacks = ofLog && !holds(leaves, hash)
  const detail = ofLog ? 'the log holds the receipt: the promise was kept' : 'the checkpoint is of another log'
  const all = [
    made,
    ...checks,
    entries,
    timeCheck(promise, note, omission, leaves, trust),
    check('omission', lacks, lacks ? 'the promise was BROKEN: no entry is this receipt' : detail),
  ]
  return verdict('omission', hash, all, checkpoint)
}

/** More than calls that one answer is made of. */
const promisesMax = 1_000

/** The promises of an answer (or of its `svc`, or of a stream's last chunk), of `svc.receipt` alone, or of a file of one promise. */
export function promisesIn(value: unknown): readonly Fields[] {
  const given = fieldsOf(value)
  const svc = given.svc === undefined ? given : fieldsOf(given.svc)
  const all = [given, svc.receipt, ...listOf(svc.receipts).slice(0, promisesMax)]
  return all.map(fieldsOf).filter((one) => one.promised_at !== undefined)
}

/** A promise, alone, with the proof that it was kept, or with the evidence that it was not. */
export function verifyPromise(given: Fields, trust: Trust): Verdict {
  const promise = readPromise(promisesIn(given)[0])
  const omission = fieldsOf(given.omission)
  if (given.omission !== undefined) return verifyOmission(promise, given, omission, trust)
  const hash = promise?.promised.hash ?? ''
  const made = promiseCheck(promise, trust)
  if (given.log_proof === undefined) {
    const unknown = 'the file does not show whether the log holds it: `receipts promise` asks the log'
    return verdict('promise', hash, [made, check('log', null, unknown)], null)
  }
  const place = logged('receipt', hash, given.log_proof, given, trust)
  const { log = '' } = promise?.promised ?? {}
  const same = lineageOf(place.checkpoint?.origin ?? '') === lineageOf(log)
  const kept = check('kept', same && place.index !== null, same ? 'the log holds the receipt' : 'it is another log')
  return verdict('promise', hash, [made, ...place.checks, kept], place.checkpoint)
}
