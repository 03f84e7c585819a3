import { Alarm } from '../../clock.ts'
import type { OpenDatabase } from '../../db/client.ts'
import { listenTo } from '../../db/queries/change-feed.ts'
import { placementsChannel, tellPlacements } from '../../db/queries/pool/placements.ts'
import { waitAtMost } from '../../deadline.ts'
import { Outage } from '../../host/outage.ts'
import { ulid } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import type { Prompt } from '../../machines/placement/blocks.ts'
import { noticesOf, type PlacementNotice, placementsIn } from '../../machines/placement/placement-notices.ts'

/** Shorter conversations cost little to read again, and the hash of their beginning leads all gateways to one node. */
const sharedBlocksMin = 8
/** How long the first placement of a batch waits for others. */
const gatherMs = 500
/** Placements of one batch; beyond it the oldest are dropped. */
const waitingMax = 1_000
/** Of at most 7,900 bytes each. */
const noticesPerBatchMax = 16
const endWaitMs = 2_000

export interface SharedPlacementsOptions {
  readonly db: OpenDatabase['db']
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  /** Another gateway has sent this prompt there. */
  readonly onPlacement: (placement: PlacementNotice) => void
}

/**
 * Tells the other gateways of this database which nodes hold the long conversations, and receives theirs (§29). A lost
 * message only means that a prompt is read twice, so no message is repeated.
 */
export class SharedPlacements {
  private readonly self = ulid()
  private waiting: PlacementNotice[] = []
  private readonly alarm = new Alarm(() => this.send())
  private telling: Promise<void> | null = null
  private unlisten: (() => Promise<void>) | null = null
  private readonly outage: Outage
  private stopped = false
  private counted = { told: 0, heard: 0, dropped: 0 }

  constructor(private readonly options: SharedPlacementsOptions) {
    const { log } = options
    this.outage = new Outage((error) => log.warn('placements_not_shared', { failure: failureName(error) }))
  }

  get counts(): Readonly<Record<'told' | 'heard' | 'dropped', number>> {
    return this.counted
  }

  async start(): Promise<void> {
    try {
      this.unlisten = await listenTo(this.options.sql, placementsChannel, (notice) => this.notice(notice))
    } catch (error) {
      this.outage.failed(error)
    }
  }

  async stop(): Promise<void> {
    this.stopped = true
    this.alarm.clear()
    this.waiting = []
    if (this.telling !== null) await waitAtMost(endWaitMs, this.telling)
    if (this.unlisten !== null) await waitAtMost(endWaitMs, this.unlisten())
  }

  /** Never waits. */
  tell(profileId: string, prompt: Prompt): void {
    if (prompt.blocks.length <= sharedBlocksMin || this.stopped) return
    if (this.waiting.length >= waitingMax) {
      this.waiting.shift()
      this.counted.dropped++
    }
    this.waiting.push({ profileId, prompt })
    if (!this.alarm.isSet) this.alarm.set(gatherMs)
  }

  private send(): void {
    // The newest first: they are the ones that will be asked about next.
    const batch = this.waiting.reverse()
    this.waiting = []
    const notices = noticesOf(this.self, batch, noticesPerBatchMax)
    const sent = notices.reduce((sum, notice) => sum + notice.split('\n').length - 1, 0)
    this.counted.dropped += batch.length - sent
    this.telling = tellPlacements(this.options.db, notices)
      .then(() => {
        this.counted.told += sent
        this.outage.worked()
      })
      .catch((error: unknown) => {
        this.counted.dropped += sent
        this.outage.failed(error)
      })
  }

  private notice(text: string): void {
    if (this.stopped) return
    for (const placement of placementsIn(text, this.self)) {
      this.counted.heard++
      this.options.onPlacement(placement)
    }
  }
}
