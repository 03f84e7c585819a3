import type { PrivateFolder } from '../../../host/private-files.ts'
import { parseProofLines } from '../../../protocol/log/checkpoint.ts'
import { GrowingTree } from '../../../protocol/log/growing-tree.ts'
import { encodeBase64 } from '../../../protocol/signing/base64.ts'
import { type Fields, fieldsOf, textOf, textsOf, wholeOf } from '../../../protocol/verify/given.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { Followed } from './follower.ts'

/** What a monitor keeps between its runs: the roots of some subtrees, and what its checks remember. */
export interface MonitorState {
  readonly followed: Followed
  /** Read beyond the last signed root; null: nothing. */
  readonly ahead: GrowingTree | null
  /** By the names of checks. */
  readonly checks: Fields
}

const stateFile = 'monitor.json'
const version = 1
const writtenTree = (tree: GrowingTree) => ({ size: tree.size, hashes: tree.hashes.map(encodeBase64) })

function readTree(value: unknown): GrowingTree | null {
  const { size, hashes } = fieldsOf(value)
  const roots = parseProofLines(textsOf(hashes))
  return roots === null ? null : GrowingTree.of(wholeOf(size), roots)
}

const nothing: MonitorState = {
  followed: { origin: null, tree: GrowingTree.empty(), unmetSinceMs: null },
  ahead: null,
  checks: {},
}

/** Throws `CliFailure` where the file is damaged: a monitor that forgets would not see another log. */
export function readState(folder: PrivateFolder): MonitorState {
  const kept = folder.read(stateFile)
  if (kept === undefined) return nothing
  const { v, origin, tree, unmet_since_ms: since, ahead, checks } = fieldsOf(kept)
  const read = readTree(tree)
  const beyond = ahead === null || ahead === undefined ? null : readTree(ahead)
  const isWhole = v === version && read !== null && (beyond !== null || ahead == null)
  if (!isWhole || (origin !== null && textOf(origin) === null))
    throw new CliFailure(`${folder.path}/${stateFile} is damaged. Move it away to follow the log from its first entry.`)
  const followed = { origin: textOf(origin), tree: read, unmetSinceMs: wholeOf(since) < 0 ? null : wholeOf(since) }
  return { followed, ahead: beyond, checks: fieldsOf(checks) }
}

export function writeState(folder: PrivateFolder, { followed, ahead, checks }: MonitorState): void {
  folder.write(stateFile, {
    v: version,
    origin: followed.origin,
    tree: writtenTree(followed.tree),
    unmet_since_ms: followed.unmetSinceMs,
    ahead: ahead === null ? null : writtenTree(ahead),
    checks,
  })
}
