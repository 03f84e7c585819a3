import type { Database } from '../../db/client.ts'
import { readHeads, readTombstones } from '../../db/queries/audit/audit-chains.ts'
import { loggedHeads, macAt } from '../../db/queries/log/heads.ts'
import { auditHeadHash } from '../../protocol/log/entry-facts.ts'

/**
 * Writers whose chain does not lead on from an end that the log holds: removed whole, cut short, or written anew from
 * further back. Needs no key, and no end that somebody saved.
 */
export async function checkLoggedHeads(tx: Database): Promise<readonly string[]> {
  const heads = new Map((await readHeads(tx)).map((head) => [head.writerId, head]))
  const stones = await readTombstones(tx)
  const lost = new Set<string>()
  for (const { writerId, seq, hash } of await loggedHeads(tx)) {
    const head = heads.get(writerId)
    if (head === undefined || head.seq < seq) {
      lost.add(writerId)
      continue
    }
    // Purged events have no row; the tombstone after them stands for the chain, and its own check for the tombstone.
    const purged = stones.some((stone) => stone.writerId === writerId && stone.seq > seq)
    const mac = purged ? null : head.seq === seq ? head.mac : await macAt(tx, writerId, seq)
    const stone = stones.find((one) => one.writerId === writerId && one.seq === seq)
    const known = mac ?? stone?.mac ?? null
    if (purged) continue
    const told =
      known === null ? null : auditHeadHash({ writerId, ordinal: head.ordinal, seq, mac: known.toString('hex') })
    if (told !== hash) lost.add(writerId)
  }
  return [...lost]
}
