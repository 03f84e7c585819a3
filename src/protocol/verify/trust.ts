import { type Checkpoint, parseCheckpoint, parseProofLines } from '../log/checkpoint.ts'
import { type ForkProof, followsFork, isLostBy } from '../log/fork-proof.ts'
import { isConsistent, sameHash } from '../log/merkle-log.ts'
import { type CheckedSignature, checkNote, type NoteKey, parseNote, type VerifyEd25519 } from '../log/note.ts'
import { isEarlier } from '../log/origins.ts'
import { isMet, type Policy, quorumText } from './policy.ts'
import { seenBefore } from './seen-logs.ts'

/** What the one who verifies knows from elsewhere. Nothing in a file is trusted by itself. */
export interface Trust {
  readonly logKeys: readonly NoteKey[]
  readonly witnessKeys: readonly NoteKey[]
  /** Ed25519 keys of nodes, base64url. */
  readonly nodeKeys: readonly string[]
  /** Keys of an audit's chains, as SVC_AUDIT_KEY has them. */
  readonly auditKeys: readonly string[]
  readonly witnessesMin: number
  /** Says which logs and witnesses count, in place of the keys above. Absent, null: there is none. */
  readonly policy?: Policy | null
  /** A signature alone is not enough. */
  readonly logNeeded: boolean
  /** The largest checkpoints of this log, under each of its names, that were verified here before. */
  remembered(origin: string): readonly Checkpoint[]
  /** Signed checkpoints that the same file has shown before, by their first two lines. */
  readonly shown?: Map<string, Checkpoint>
  readonly verify: VerifyEd25519
}

/** `ok` null: nothing can be said, and nothing depends on it. */
export interface Check {
  readonly name: string
  readonly ok: boolean | null
  readonly detail: string
  /** `ok` is null, and the reader should look. */
  readonly warns?: boolean
}

/** How a check is shown. */
export const checkWord = ({ ok, warns }: Check): 'holds' | 'does not hold' | 'warning' | 'not said' =>
  ok === null ? (warns === true ? 'warning' : 'not said') : ok ? 'holds' : 'does not hold'

export interface Verdict {
  readonly kind: 'receipt' | 'payout' | 'checkpoint' | 'audit' | 'envelope' | 'promise' | 'omission' | 'attestation'
  readonly subject: string
  readonly checks: readonly Check[]
  readonly valid: boolean
  /** To remember; null: none that holds. */
  readonly checkpoint: Checkpoint | null
}

/** With the keys of the policy in place of others: what a policy does not name counts for nothing. */
export const underPolicy = (trust: Trust, policy: Policy): Trust => ({
  ...trust,
  policy,
  logKeys: policy.logs.length === 0 ? trust.logKeys : policy.logs.map(({ key }) => key),
  witnessKeys: policy.witnesses.map(({ key }) => key),
})

export const check = (name: string, ok: boolean | null, detail: string): Check => ({ name, ok, detail })

export function verdict(
  kind: Verdict['kind'],
  subject: string,
  checks: readonly Check[],
  checkpoint: Checkpoint | null,
): Verdict {
  const valid = checks.length > 0 && checks.every(({ ok }) => ok !== false)
  return { kind, subject, checks, valid, checkpoint: valid ? checkpoint : null }
}

export interface CheckedCheckpoint {
  readonly checks: readonly Check[]
  readonly checkpoint: Checkpoint | null
}

/** A consistency proof as `/v1/public/log/proof?from=&to=` answers. */
export interface GivenConsistency {
  readonly from: number
  readonly to: number
  readonly proof: readonly string[]
}

/** What comes with a checkpoint, to show that its log leads on from what was seen of it. */
export interface GivenGrowth {
  readonly consistency: readonly GivenConsistency[]
  readonly forks: readonly ForkProof[]
}

/** The keys that are known for this log; those of a name that was seen before hold for what its fork leads to, too. */
function keysFor(origin: string, { logKeys, policy }: Trust, seen: readonly Checkpoint[]): readonly NoteKey[] {
  const own = logKeys.filter(({ name }) => name === origin)
  // A policy names each log by its own name: a later one counts when the policy has it.
  if (own.length > 0 || (policy?.logs.length ?? 0) > 0) return own
  const names = new Set(seen.map((one) => one.origin))
  return logKeys.filter(({ name }) => names.has(name)).map((key) => ({ ...key, name: origin }))
}

/** Who signed it, and whether it leads on from what was seen before. */
export function checkCheckpoint(note: string, trust: Trust, given: GivenGrowth): CheckedCheckpoint {
  const parsed = parseNote(note)
  const checkpoint = parsed === null ? null : parseCheckpoint(parsed.text)
  if (parsed === null || checkpoint === null) {
    return { checks: [check('checkpoint', false, 'there is no checkpoint of a log')], checkpoint: null }
  }
  const seen = trust.remembered(checkpoint.origin)
  const own = keysFor(checkpoint.origin, trust, seen)
  const signed = checkNote(parsed, own, trust.verify)
  const bySomebody = signed !== null && signed.length > 0
  const witnesses = checkNote(parsed, trust.witnessKeys, trust.verify)
  const strangers = parsed.signatures.length - (signed?.length ?? 0) - (witnesses?.length ?? 0)
  return {
    checkpoint,
    checks: [
      check(
        'checkpoint',
        bySomebody,
        bySomebody ? `${checkpoint.origin}, ${checkpoint.size} entries` : unsigned(own, trust),
      ),
      witnessCheck(witnesses, strangers, trust),
      isSplit(checkpoint, bySomebody, trust)
        ? check('consistency', false, `SPLIT VIEW: this file shows two logs of ${checkpoint.size} entries`)
        : growthCheck(checkpoint, seen, given),
    ],
  }
}

/** Whether the file has shown another log under this name and size before. Only what the log has signed counts. */
function isSplit(now: Checkpoint, signed: boolean, { shown }: Trust): boolean {
  if (!signed || shown === undefined) return false
  const place = `${now.origin}\n${now.size}`
  const before = shown.get(place)
  shown.set(place, before ?? now)
  return before !== undefined && !sameHash(before.root, now.root)
}

const timeOf = (seconds: number | null) => (seconds === null ? 'some time' : new Date(seconds * 1_000).toISOString())

function unsigned(own: readonly NoteKey[], { policy }: Trust): string {
  if (own.length > 0) return 'not signed by the known key'
  return (policy?.logs.length ?? 0) > 0
    ? 'the policy names no log of this name'
    : 'its key is not known here: give it with --log-key'
}

/** `found` null: one that names a known key does not hold. */
function witnessCheck(found: readonly CheckedSignature[] | null, strangers: number, trust: Trust): Check {
  const name = 'witnesses'
  if (found === null) return check(name, false, 'a signature of a known witness does not hold')
  const names = found.map(({ key, seconds }) => `${key.name} at ${timeOf(seconds)}`)
  const beside = strangers > 0 ? ` (${strangers} signatures of keys that are not known here)` : ''
  if (trust.policy) return quorumCheck(trust.policy, found, names, beside)
  if (names.length < trust.witnessesMin)
    return check(name, false, `${names.length} of ${trust.witnessesMin} known witnesses signed${beside}`)
  return check(name, names.length === 0 ? null : true, `${names.join(', ') || 'none that is known here'}${beside}`)
}

/** Whether those that cosigned are enough for the policy. */
export function meetsQuorum({ quorum, witnesses }: Policy, found: readonly CheckedSignature[]): boolean {
  const signed = witnesses.filter(({ key }) => found.some((one) => one.key === key))
  return isMet(quorum, new Set(signed.map(({ name }) => name)))
}

function quorumCheck(policy: Policy, found: readonly CheckedSignature[], names: readonly string[], beside: string) {
  const asked = `the policy asks for ${quorumText(policy.quorum)}`
  if (!meetsQuorum(policy, found))
    return check('witnesses', false, `${asked}; signed by ${names.join(', ') || 'none of them'}${beside}`)
  return check('witnesses', policy.quorum === null ? null : true, `${names.join(', ') || asked}${beside}`)
}

/** A log that was forked is still the one that was seen: neither name makes a verifier forget the other (§36). */
function growthCheck(now: Checkpoint, seen: readonly Checkpoint[], given: GivenGrowth): Check {
  const before = seenBefore(seen, now)
  if (before === null) return check(growth, null, 'the first checkpoint of this log that is seen here')
  if (isEarlier(before.origin, now.origin)) return forkCheck(now, before, given)
  return consistencyCheck(now, before, given.consistency)
}

const growth = 'consistency'

const proofBetween = (from: number, to: number, given: readonly GivenConsistency[]) =>
  from === to ? [] : parseProofLines(given.find((one) => one.from === from && one.to === to)?.proof ?? ['none'])

function forkCheck(now: Checkpoint, before: Checkpoint, { consistency, forks }: GivenGrowth): Check {
  const proof = before.size > now.size ? null : proofBetween(before.size, now.size, consistency)
  const followed = forks.find((fork) => followsFork(before, now, fork, proof))
  if (followed !== undefined) {
    const lost = isLostBy(before, followed.lost) ? `, of which it says that it lost those from ${followed.size} on` : ''
    return check(growth, true, `${now.origin} goes on from the ${before.size} entries of ${before.origin}${lost}`)
  }
  const unproven = `no proof that it goes on from the ${before.size} entries of ${before.origin} that were seen here`
  return check(growth, false, forks.length === 0 ? `${unproven}: get one with the file` : `SPLIT VIEW: ${unproven}`)
}

function consistencyCheck(now: Checkpoint, before: Checkpoint, given: readonly GivenConsistency[]): Check {
  const name = growth
  const [earlier, later] = before.size <= now.size ? [before, now] : [now, before]
  const proof = proofBetween(earlier.size, later.size, given)
  if (proof === null) {
    return check(name, false, `no proof from ${earlier.size} to ${later.size} entries: get one with the file`)
  }
  const holds = isConsistent(earlier, later, proof)
  const split = 'SPLIT VIEW: this log does not lead on from the one that was shown here before'
  return check(name, holds, holds ? `leads on from the ${before.size} entries that were seen here` : split)
}
