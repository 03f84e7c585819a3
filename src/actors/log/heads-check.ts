import type { Database } from '../../db/client.ts'
import { readHeads, readTombstones } from '../../db/queries/audit/audit-chains.ts'
import { loggedHeads } from '../../db/queries/log/heads.ts'
import { auditHeadHash } from '../../protocol/log/entry-facts.ts'

/**
 * Writers whose chain does not lead on from an end that the log holds: removed whole, cut short, or written anew from
 * further back. Needs no key, and no end that somebody saved.
 */
export async function checkLoggedHeads(tx: Database): Promise<readonly string[]> {
  const heads = new Map((await readHeads(tx)).map((head) => [head.writerId, head]))
  // In their order: the newest of each writer stays.
  const stones = new Map((await readTombstones(tx)).map((stone) => [stone.writerId, stone]))
  const lost = new Set<string>()
  for await (const page of loggedHeads(tx)) {
    for (const { writerId, seq: claimed, hash, mac } of page) {
      const seq = claimed === null ? Number.NaN : Number(claimed)
      const [head, stone] = [heads.get(writerId), stones.get(writerId)]
      // Purged events have no row; the tombstone after them stands for the chain, and its own check for the tombstone.
      if (head !== undefined && stone !== undefined && stone.seq > seq && head.seq >= seq) continue
      const known = head?.seq === seq ? head.mac : (mac ?? (stone?.seq === seq ? stone.mac : null))
      if (head === undefined || known === null || !(head.seq >= seq)) lost.add(writerId)
      else if (auditHeadHash({ writerId, ordinal: head.ordinal, seq, mac: known.toString('hex') }) !== hash)
        lost.add(writerId)
    }
  }
  return [...lost].sort()
}
