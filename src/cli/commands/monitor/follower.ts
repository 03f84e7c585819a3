import { type Checkpoint, parseCheckpoint } from '../../../protocol/log/checkpoint.ts'
import { followsFork, isLostBy } from '../../../protocol/log/fork-proof.ts'
import { GrowingTree } from '../../../protocol/log/growing-tree.ts'
import { parseLogEntry } from '../../../protocol/log/log-entry.ts'
import { isConsistent, leafHash, sameHash } from '../../../protocol/log/merkle-log.ts'
import { checkNote, type NoteKey, parseNote } from '../../../protocol/log/note.ts'
import { isEarlier } from '../../../protocol/log/origins.ts'
import { verifyEd25519 } from '../../../protocol/signing/ed25519.ts'
import { type Policy, quorumText } from '../../../protocol/verify/policy.ts'
import { meetsQuorum } from '../../../protocol/verify/trust.ts'
import type { MonitorCheck, Report } from './findings.ts'
import type { LogSource } from './log-source.ts'

/** Where the monitor stands in the log. */
export interface Followed {
  /** null: nothing was read yet. */
  readonly origin: string | null
  /** All of it, up to a root that the log has signed. */
  readonly tree: GrowingTree
  /** Since when no checkpoint has its quorum, ms; null: the last one had. */
  readonly unmetSinceMs: number | null
}

export interface FollowerParts {
  readonly source: LogSource
  readonly policy: Policy
  readonly checks: readonly MonitorCheck[]
  readonly report: Report
  readonly nowMs: () => number
  /** How long a quorum may be lacking before it is a finding, ms. */
  readonly quorumWithinMs: number
  /** Told while a long log is read, so that nothing of it need be read again. */
  readonly progress: (tree: GrowingTree) => void
  /** What an earlier run had read beyond its last signed root; null: nothing. */
  readonly ahead: GrowingTree | null
}

/** A monitor that was away for longer than so many entries does not know how old they are. */
const newEntriesMax = 50_000
const decoder = new TextDecoder()

interface Signed {
  readonly checkpoint: Checkpoint
  readonly keys: readonly NoteKey[]
  readonly unmet: boolean
}

/** The checkpoint, if a log of the policy has signed it. */
function readSigned(note: string, { policy, report }: FollowerParts): Signed | null {
  const parsed = parseNote(note)
  const checkpoint = parsed === null ? null : parseCheckpoint(parsed.text)
  if (parsed === null || checkpoint === null) {
    report('checkpoint_invalid', 'log', 'the log shows no checkpoint')
    return null
  }
  const keys = policy.logs.map(({ key }) => key).filter(({ name }) => name === checkpoint.origin)
  if (keys.length === 0) {
    report('log_unnamed', checkpoint.origin, 'the policy names no log of this name')
    return null
  }
  const signed = checkNote(parsed, keys, verifyEd25519)
  const witnesses = checkNote(
    parsed,
    policy.witnesses.map(({ key }) => key),
    verifyEd25519,
  )
  if (signed === null || signed.length === 0 || witnesses === null) {
    const who = witnesses === null ? 'a witness' : 'the log'
    report(
      'checkpoint_invalid',
      checkpoint.origin,
      `${who} has not signed this checkpoint of ${checkpoint.size} entries`,
    )
    return null
  }
  return { checkpoint, keys, unmet: !meetsQuorum(policy, witnesses) }
}

/** Whether what was read is the beginning of the log under its later name, and from where on it is to be read again. */
async function acrossFork(parts: FollowerParts, before: Checkpoint, now: Checkpoint): Promise<'all' | 'none' | null> {
  const { source, report } = parts
  const forks = isEarlier(before.origin, now.origin) ? await source.forks(now.size) : []
  const grown = before.size <= now.size ? await source.consistency(before.size, now.size) : null
  const followed = forks.find((fork) => followsFork(before, now, fork, grown))
  if (followed === undefined) {
    const from = `the ${before.size} entries of ${before.origin} that were read`
    report('fork_unproven', now.origin, `no entry of the log proves that it goes on from ${from}`)
    return null
  }
  report('log_forked', now.origin, `the operator has named a fork at entry ${followed.size}`)
  return grown !== null && isConsistent(before, now, grown) && !isLostBy(before, followed.lost) ? 'all' : 'none'
}

async function readEntries(parts: FollowerParts, tree: GrowingTree, to: number): Promise<void> {
  const { source, checks, report, nowMs, progress } = parts
  // The age of entries is unknown when a log is read for the first time.
  const isNew = tree.size > 0 && to - tree.size < newEntriesMax
  for await (const bundle of source.entries(tree.size, to)) {
    for (const bytes of bundle) {
      const index = tree.size
      const entry = parseLogEntry(decoder.decode(bytes))
      if (entry === null) report('entry_unknown', `entry ${index}`, 'this version knows no such entry')
      else for (const check of checks) check.entry?.(entry, index, { nowMs: nowMs(), isNew })
      tree.add(leafHash(bytes))
    }
    if (tree.size < to) progress(tree)
  }
}

/** Reads on to the checkpoint, and compares. null: the entries give another root. */
async function grow(parts: FollowerParts, from: GrowingTree, now: Checkpoint): Promise<GrowingTree | null> {
  const { ahead, report, checks } = parts
  const tree = ahead !== null && ahead.size > from.size && ahead.size <= now.size ? ahead.copy() : from.copy()
  await readEntries(parts, tree, now.size)
  if (sameHash(tree.tree().root, now.root)) return tree
  for (const check of checks) check.forget?.(from.size)
  report(
    'split_view',
    now.origin,
    `the ${now.size} entries that were read do not give the root of this checkpoint, which the log has signed`,
  )
  return null
}

/** An older checkpoint may be shown for a while; it must be of this log all the same. */
async function shrunk({ source, report }: FollowerParts, held: GrowingTree, now: Checkpoint): Promise<void> {
  const proof = await source.consistency(now.size, held.size)
  if (proof !== null && isConsistent(now, held.tree(), proof)) return
  const code = proof === null ? 'log_shrunk' : 'split_view'
  report(code, now.origin, `the log shows ${now.size} entries, and ${held.size} were read before`)
}

/** One look at the log. Resolves to where the monitor stands then, and with whose keys; keys null: it could not read on. */
export async function followOnce(
  parts: FollowerParts,
  before: Followed,
): Promise<{ readonly followed: Followed; readonly keys: readonly NoteKey[] | null }> {
  const note = await parts.source.checkpoint()
  if (note === null) {
    if (before.origin !== null) parts.report('log_shrunk', before.origin, 'the log shows no checkpoint any more')
    return { followed: before, keys: null }
  }
  const signed = readSigned(note, parts)
  if (signed === null) return { followed: before, keys: null }
  const { checkpoint: now, keys, unmet } = signed
  const since = unmet ? (before.unmetSinceMs ?? parts.nowMs()) : null
  const followed = { ...before, unmetSinceMs: since }
  if (since !== null && parts.nowMs() - since >= parts.quorumWithinMs) {
    parts.report('quorum_missing', now.origin, `the policy asks for ${quorumText(parts.policy.quorum)}`)
  }
  let { tree } = before
  if (before.origin !== null && before.origin !== now.origin) {
    const kept = await acrossFork(parts, { origin: before.origin, ...tree.tree() }, now)
    if (kept === null) return { followed, keys: null }
    if (kept === 'none') {
      tree = GrowingTree.empty()
      for (const check of parts.checks) check.forget?.(0)
    }
  }
  if (now.size < tree.size) {
    await shrunk(parts, tree, now)
    return { followed, keys: null }
  }
  const grown = await grow(parts, tree, now)
  if (grown === null) return { followed, keys: null }
  return { followed: { ...followed, origin: now.origin, tree: grown }, keys }
}
