import { parseLogProof } from '../../../protocol/log/checkpoint.ts'
import { batchHash } from '../../../protocol/log/entry-facts.ts'
import { checkpointIn } from '../../../protocol/log/fork-proof.ts'
import { logLeaf } from '../../../protocol/log/log-entry.ts'
import { isConsistent, rootByInclusion, sameHash, type Tree } from '../../../protocol/log/merkle-log.ts'
import { checkNote, parseNote } from '../../../protocol/log/note.ts'
import { MerkleTree, payoutLeafOf } from '../../../protocol/receipts/merkle.ts'
import { verifyEd25519 } from '../../../protocol/signing/ed25519.ts'
import { type Fields, fieldsOf, listOf, textOf, textsOf, wholeOf } from '../../../protocol/verify/given.ts'
import { minuteMs } from '../../../time.ts'
import type { Leaf, MonitorCheck, Round } from './findings.ts'

/** A batch as the public list has it. */
interface Batch {
  readonly batchId: string
  readonly merkleRoot: string
  readonly payoutCount: number
  readonly totalAmountWei: string
  /** A transaction of it may be on its way. */
  readonly isSettled: boolean
}

/** A batch that the log has announced and that is not settled yet. */
interface Pending {
  readonly index: number
  readonly hash: string
  readonly sinceMs: number
  readonly isNew: boolean
  readonly compared: boolean
}

/** Batches that are announced and wait, and ids of settled ones that were looked up: more than a gateway lists. */
const pendingMax = 1_000
const lookedUpMax = 400
/** The list of batches and the log are read one after the other, and answers are cached for 15 s. */
const listedWithinMs = 10 * minuteMs
/** As many as the list has at most. */
const listedMax = 100

function batchOf(fields: Fields): Batch | null {
  const { batch_id, merkle_root, payout_count, total_amount_wei, status } = fields
  const [batchId, merkleRoot, totalAmountWei] = [batch_id, merkle_root, total_amount_wei].map(textOf)
  if (batchId == null || merkleRoot == null || totalAmountWei == null || wholeOf(payout_count) < 0) return null
  return { batchId, merkleRoot, payoutCount: wholeOf(payout_count), totalAmountWei, isSettled: status !== 'created' }
}

function pendingOf(value: unknown): readonly Pending[] {
  const { index, hash, sinceMs, isNew, compared } = fieldsOf(value)
  const text = textOf(hash)
  if (text === null || wholeOf(index) < 0 || wholeOf(sinceMs) < 0) return []
  const place = { index: wholeOf(index), hash: text, sinceMs: wholeOf(sinceMs) }
  return [{ ...place, isNew: isNew === true, compared: compared === true }]
}

/** Whether an inclusion proof of this receipt holds, below a root of the very log that was read. */
async function isLogged(hash: string, round: Round, accepted: Map<number, Tree>): Promise<boolean> {
  const { source, tree, logKeys } = round
  const proof = parseLogProof((await source.inclusion(hash)) ?? '')
  const note = proof === null ? null : parseNote(proof.note)
  const below = proof === null ? null : checkpointIn(proof.note)
  if (proof === null || note === null || below === null) return false
  const root = rootByInclusion(logLeaf({ kind: 'receipt', hash }), proof.index, below.size, proof.proof)
  if (root === null || !sameHash(root, below.root)) return false
  if ((checkNote(note, logKeys, verifyEd25519)?.length ?? 0) === 0) return false
  const known = accepted.get(below.size)
  if (known !== undefined) return sameHash(known.root, below.root)
  const [old, now] = below.size <= tree.size ? [below, tree] : [tree, below]
  const grown = await source.consistency(old.size, now.size)
  if (grown === null || !isConsistent(old, now, grown)) return false
  accepted.set(below.size, below)
  return true
}

/** Recomputes root, number and sum of the public leaves, and looks each one's receipt up in the log. */
async function compare(batch: Batch, round: Round): Promise<void> {
  const { source, report, tree } = round
  const { batchId, merkleRoot, payoutCount, totalAmountWei } = batch
  const leaves = listOf((await source.leaves(batchId))?.proofs).map(fieldsOf)
  let sum = 0n
  let root: string | null = null
  const hashes = new Set<string>()
  try {
    const nodes = leaves.map((leaf) => {
      const [receiptHash, entryId, payee] = [leaf.payout_id, leaf.entry_id, leaf.payee].map(textOf)
      const amountWei = BigInt(textOf(leaf.amount_wei) ?? 'none')
      sum += amountWei
      hashes.add(receiptHash ?? entryId ?? '')
      return payoutLeafOf({ receiptHash: receiptHash ?? null, entryId: entryId ?? '', payee: payee ?? '', amountWei })
    })
    root = MerkleTree.of(nodes).root()
  } catch {
    // No leaf, or a malformed one: no root.
  }
  if (
    root !== merkleRoot ||
    leaves.length !== payoutCount ||
    sum.toString() !== totalAmountWei ||
    hashes.size !== leaves.length
  ) {
    report('leaves_differ', batchId, `its ${leaves.length} public leaves are not the batch that the log announced`)
    return
  }
  const accepted = new Map([[tree.size, tree]])
  for (const leaf of leaves) {
    const payoutId = textOf(leaf.payout_id)
    round.leaf({ batchId, payoutId, payee: textOf(leaf.payee) ?? '' } satisfies Leaf)
    if (payoutId === null || (await isLogged(payoutId, round, accepted))) continue
    report('payout_without_receipt', payoutId, `batch ${batchId} pays for a receipt that the log does not hold`)
  }
}

/**
 * Batches against their leaves, and against the log: each is announced there before it is settled, and pays only for receipts
 * that the log holds. `announceMs`: how long before, as the operator has promised.
 */
export function batchCheck(kept: unknown, announceMs: number): MonitorCheck {
  let pending = listOf(fieldsOf(kept).pending).slice(0, pendingMax).flatMap(pendingOf)
  let lookedUp = textsOf(fieldsOf(kept).lookedUp).slice(0, lookedUpMax)

  /** null: nothing more is to be said about it. */
  async function judge(
    one: Pending,
    batch: Batch | undefined,
    isListed: boolean,
    round: Round,
  ): Promise<Pending | null> {
    const { report, nowMs } = round
    if (batch === undefined) {
      if (!isListed) return null
      if (nowMs - one.sinceMs < listedWithinMs) return one
      report('batch_unknown', `entry ${one.index}`, 'the log announced a batch that the gateway does not list')
      return null
    }
    if (!one.compared) await compare(batch, round)
    if (!batch.isSettled) return { ...one, compared: true }
    const early = announceMs - (nowMs - one.sinceMs)
    if (one.isNew && early > 0) {
      const minutes = Math.ceil(early / minuteMs)
      report('batch_settled_early', batch.batchId, `it is settled ${minutes} minutes before its announcement has ended`)
    }
    lookedUp = [...lookedUp, batch.batchId].slice(-lookedUpMax)
    return null
  }

  return {
    name: 'batches',
    entry: ({ kind, hash }, index, { nowMs, isNew }) => {
      if (kind === 'batch')
        pending = [...pending, { index, hash, sinceMs: nowMs, isNew, compared: false }].slice(-pendingMax)
    },
    forget: (from) => {
      pending = pending.filter(({ index }) => index < from)
    },
    round: async (round) => {
      const listed = (await round.source.batches()).flatMap((one) => batchOf(one) ?? [])
      const byHash = new Map(listed.map((batch) => [batchHash(batch), batch]))
      const announced = new Set(pending.map(({ hash }) => hash))
      const left: Pending[] = []
      for (const one of pending) {
        // A full list has only the newest ones.
        const isListed = one.isNew || listed.length < listedMax
        const next = await judge(one, byHash.get(one.hash), isListed, round)
        if (next !== null) left.push(next)
      }
      pending = left
      for (const [hash, { batchId, isSettled }] of byHash) {
        if (!isSettled || announced.has(hash) || lookedUp.includes(batchId)) continue
        if ((await round.source.inclusion(hash)) === null)
          round.report('batch_not_logged', batchId, 'it is settled, and the log has not announced it as it is')
        lookedUp = [...lookedUp, batchId].slice(-lookedUpMax)
      }
    },
    state: () => ({ pending, lookedUp }),
  }
}
