import type { Database } from '../../db/client.ts'
import * as chains from '../../db/queries/audit/audit-chains.ts'
import { Problem } from '../../errors.ts'
import { equalBytes } from '../../secrets.ts'
import { chainKeyId, chainStart, eventMac, headProof, tombstoneProof } from './audit-chain.ts'

export type ChainFaultKind =
  | 'event_altered'
  | 'event_missing'
  /** An event beyond the head, a second event with the same number, or an event of a writer without a head. */
  | 'event_foreign'
  | 'head_altered'
  | 'tombstone_altered'
  /** The number of a writer is missing between other writers. */
  | 'writer_missing'
  /** SVC_AUDIT_KEY no longer contains the key of this event, so the check cannot verify it. */
  | 'key_unknown'

export interface ChainFault {
  readonly kind: ChainFaultKind
  readonly writerId: string | null
  /** The number of the event, or the ordinal of the missing writer. */
  readonly at: number | null
}

export interface ChainReport {
  /** The number of events whose MAC was checked. */
  readonly events: number
  readonly heads: readonly chains.ChainHead[]
  readonly tombstones: readonly chains.Tombstone[]
  /** At most 100. It is empty if the chains are intact. */
  readonly faults: readonly ChainFault[]
}

interface ChainPlace {
  readonly seq: number
  readonly mac: Uint8Array
}

const faultsMax = 100
const eventsAtOnce = 5_000

/**
 * Checks all chains from their tombstones to their heads in one snapshot of the database. Refuses while a purge runs.
 */
export function checkChains(db: Database, keys: readonly string[]): Promise<ChainReport> {
  return db.transaction(async (tx) => {
    if (!(await chains.holdChains(tx))) {
      throw new Problem('invalid_state', { detail: 'A purge of the audit is running. Try again when it has ended.' })
    }
    return new ChainCheck(tx, keys).run()
  })
}

class ChainCheck {
  private readonly keys: ReadonlyMap<string, string>
  private readonly faults: ChainFault[] = []
  private events = 0

  constructor(
    private readonly tx: Database,
    keys: readonly string[],
  ) {
    this.keys = new Map(keys.map((key) => [chainKeyId(key), key]))
  }

  async run(): Promise<ChainReport> {
    const heads = await chains.readHeads(this.tx)
    const tombstones = await chains.readTombstones(this.tx)
    this.checkWriters(heads)
    await this.checkStrangers(heads)
    for (const head of heads) {
      await this.checkChain(
        head,
        tombstones.filter(({ writerId }) => writerId === head.writerId),
      )
    }
    return { events: this.events, heads, tombstones, faults: this.faults }
  }

  private fault(kind: ChainFaultKind, writerId: string | null, at: number | null): void {
    if (this.faults.length < faultsMax) this.faults.push({ kind, writerId, at })
  }

  private checkWriters(heads: readonly chains.ChainHead[]): void {
    let expected = 1
    for (const { ordinal } of heads) {
      for (; expected < ordinal && this.faults.length < faultsMax; expected++) {
        this.fault('writer_missing', null, expected)
      }
      expected = ordinal + 1
    }
  }

  private async checkStrangers(heads: readonly chains.ChainHead[]): Promise<void> {
    const known = new Map(heads.map((head) => [head.writerId, head]))
    for (const { writerId, lastSeq } of await chains.countByWriter(this.tx)) {
      const head = known.get(writerId)
      if (head === undefined || lastSeq > head.seq) this.fault('event_foreign', writerId, lastSeq)
    }
  }

  private async checkChain(head: chains.ChainHead, stones: readonly chains.Tombstone[]): Promise<void> {
    const { writerId } = head
    const key = this.keys.get(head.keyId)
    if (key === undefined) return this.fault('key_unknown', writerId, null)
    const { proof, ...facts } = head
    if (!equalBytes(headProof(key, facts), proof)) this.fault('head_altered', writerId, head.seq)
    const begin = this.beginning(head, stones)
    await this.checkEvents(head, key, begin)
  }

  /** The last tombstone, or the start of the chain. */
  private beginning(head: chains.ChainHead, stones: readonly chains.Tombstone[]): ChainPlace {
    let begin: ChainPlace = { seq: 0, mac: chainStart }
    for (const { proof, ...stone } of stones) {
      const own = this.keys.get(stone.keyId)
      if (own === undefined) this.fault('key_unknown', head.writerId, stone.seq)
      else if (!equalBytes(tombstoneProof(own, stone), proof)) {
        this.fault('tombstone_altered', head.writerId, stone.seq)
      } else if (stone.seq > begin.seq) begin = stone
    }
    // All events were purged, so the head must equal the tombstone.
    if (begin.seq === head.seq && !equalBytes(begin.mac, head.mac)) this.fault('head_altered', head.writerId, head.seq)
    return begin
  }

  private async checkEvents(head: chains.ChainHead, key: string, begin: ChainPlace): Promise<void> {
    const { writerId } = head
    let previous: Uint8Array | null = begin.mac
    let expected = begin.seq + 1
    for (let from = begin.seq; from < head.seq; from += eventsAtOnce) {
      for (const event of await chains.chainEvents(this.tx, writerId, from, Math.min(from + eventsAtOnce, head.seq))) {
        this.events++
        if (event.seq < expected) {
          this.fault('event_foreign', writerId, event.seq)
          continue
        }
        if (event.seq > expected) {
          this.fault('event_missing', writerId, expected)
          previous = null
        }
        // After a gap the check continues with the event as it is, so that one removal is reported as one fault.
        const holds = previous === null || equalBytes(eventMac(key, previous, event), event.mac)
        if (!holds) this.fault('event_altered', writerId, event.seq)
        previous = event.mac
        expected = event.seq + 1
      }
    }
    if (expected <= head.seq) this.fault('event_missing', writerId, expected)
    else if (previous !== null && !equalBytes(previous, head.mac)) this.fault('event_altered', writerId, head.seq)
  }
}
