import type { Database } from '../../db/client.ts'
import * as chains from '../../db/queries/audit/audit-chains.ts'
import { loggedHeadOf, macAt } from '../../db/queries/log/heads.ts'
import { auditHeadHash } from '../../protocol/log/entry-facts.ts'
import type { AuditPart } from '../../protocol/wire/admin/audit-export.ts'
import { chainStart, eventFacts, kindOf, tombstoneFacts } from './audit-chain.ts'

/** Events of one answer. */
const eventsAtOnce = 1_000

/** A part of one writer's chain as its MACs cover it, and the end of it that the log holds; null: no such writer. */
export function exportChain(db: Database, writerId: string, after: number): Promise<AuditPart | null> {
  return db.transaction(async (tx) => {
    await chains.holdChains(tx)
    const head = (await chains.readHeads(tx)).find((one) => one.writerId === writerId)
    if (head === undefined) return null
    const stone = (await chains.readTombstones(tx)).findLast((one) => one.writerId === writerId) ?? null
    const begin = stone === null ? { seq: 0, mac: chainStart } : stone
    const from = Math.max(after, begin.seq)
    const to = Math.min(from + eventsAtOnce, head.seq)
    const events = await chains.chainEvents(tx, writerId, from, to)
    return {
      writer_id: writerId,
      ordinal: head.ordinal,
      key_id: head.keyId,
      seq: head.seq,
      mac: head.mac.toString('hex'),
      begins: {
        seq: begin.seq,
        mac: begin.mac.toString('hex'),
        tombstone: stone === null ? null : { facts: tombstoneFacts(stone), proof: stone.proof.toString('hex') },
      },
      events: events.map((event) => ({
        kind: kindOf(event),
        facts: eventFacts(event),
        mac: event.mac.toString('hex'),
      })),
      logged: await loggedEnd(tx, head, stone),
      next_after: to < head.seq ? to : null,
    }
  })
}

async function loggedEnd(
  tx: Database,
  head: chains.ChainHead,
  stone: chains.Tombstone | null,
): Promise<AuditPart['logged']> {
  const logged = await loggedHeadOf(tx, head.writerId)
  if (logged === null) return null
  const { seq, hash } = logged
  const known = head.seq === seq ? head.mac : stone?.seq === seq ? stone.mac : await macAt(tx, head.writerId, seq)
  const mac = known?.toString('hex') ?? ''
  // What does not give the entry that the log holds is shown as it is, and a verifier sees it.
  return { seq, mac, hash, entry: auditHeadHash({ writerId: head.writerId, ordinal: head.ordinal, seq, mac }) }
}
