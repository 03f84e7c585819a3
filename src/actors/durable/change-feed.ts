import { type Clock, systemClock } from '../../clock.ts'
import type { OpenDatabase } from '../../db/client.ts'
import { listenTo, type Topic, versionsQuery } from '../../db/queries/change-feed.ts'
import { waitAtMost, within } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { Outage } from '../../host/outage.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'

export type { Topic } from '../../db/queries/change-feed.ts'

export interface ChangeFeedOptions {
  readonly db: OpenDatabase['db']
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  readonly now?: () => number
  /** The time between two polls, ms. */
  readonly pollMs?: number
  readonly clock?: Clock
}

const pollMsDefault = 2 * secondMs
/** A poll that does not answer counts as failed, so that the next one uses a new connection. */
const pollAnswerMs = 4 * secondMs
const channel = 'penstock_changes'

/**
 * Tells what this gateway keeps copies of when it changes anywhere (§26): by NOTIFY at once, by a poll of the
 * versions at the latest.
 */
export class ChangeFeed {
  private readonly readVersions: () => Promise<readonly { topic: Topic; version: number }[]>
  private readonly now: () => number
  private readonly clock: Clock
  private readonly polling: Loop
  private readonly versions = new Map<Topic, number>()
  private readonly subscribers = new Map<Topic, Set<() => void | Promise<void>>>()
  private confirmedAt = 0
  private stopped = false
  private unlisten: Promise<(() => Promise<void>) | null> | null = null

  constructor(private readonly options: ChangeFeedOptions) {
    this.readVersions = versionsQuery(options.db)
    this.now = options.now ?? Date.now
    this.clock = options.clock ?? systemClock
    this.polling = loop({
      // The driver itself delays reconnections, so this feed polls at a steady interval.
      pauseMs: options.pollMs ?? pollMsDefault,
      run: () => this.poll(),
      outage: new Outage(
        (error) => options.log.warn('change_feed_lost', { error: failureName(error) }),
        () => this.returned(),
      ),
      clock: this.clock,
    })
  }

  /** Reads the versions once and then follows changes. It does not reject without the database but keeps trying. */
  async start(): Promise<void> {
    // It listens before the first read, so that it misses no change between the two.
    this.listen()
    await this.unlisten
    await this.polling.startNow()
  }

  async stop(): Promise<void> {
    this.stopped = true
    void this.polling.stop()
    const unlisten = await this.unlisten
    if (unlisten != null) await waitAtMost(pollAnswerMs, unlisten())
  }

  /**
   * Calls back after every change of the topic, before `confirmedAtMs` moves on. A promise it returns settles once the
   * copy is current, and never rejects. Returns how to end it.
   */
  subscribe(topic: Topic, changed: () => void | Promise<void>): () => void {
    const subscribers = this.subscribers.get(topic) ?? new Set()
    this.subscribers.set(topic, subscribers.add(changed))
    return () => subscribers.delete(changed)
  }

  /**
   * Unix ms of the last time at which the database said that nothing newer exists than what subscribers were told of;
   * 0 before the first. Stands still while the database is away.
   */
  confirmedAtMs(): number {
    return this.confirmedAt
  }

  /**
   * This process has itself changed the topic: its own copies are out of date now, not when the notice arrives. Resolves
   * when those that are read anew at once have been.
   */
  async changedHere(topic: Topic): Promise<void> {
    await Promise.all([...(this.subscribers.get(topic) ?? [])].map((changed) => changed()))
  }

  /** A notice only says that something changed, and the versions say what. So a lost or repeated notice does no harm. */
  private listen(): void {
    this.unlisten = listenTo(this.options.sql, channel, () => this.polling.soon(0)).catch(() => null)
  }

  private async poll(): Promise<void> {
    const sentAt = this.now()
    const versions = await within(pollAnswerMs, this.readVersions(), this.clock)
    if (this.stopped) return
    this.take(versions)
    this.confirmedAt = sentAt
  }

  private returned(): void {
    this.options.log.info('change_feed_back')
    // Only the first attempt to listen is repeated here. Later the driver listens again by itself.
    this.unlisten?.then((unlisten) => {
      if (unlisten === null && !this.stopped) this.listen()
    })
  }

  private take(versions: readonly { topic: Topic; version: number }[]): void {
    for (const { topic, version } of versions) {
      if (this.versions.get(topic) === version) continue
      this.versions.set(topic, version)
      // This also runs the first time, because something may have been read before the feed began.
      void this.changedHere(topic)
    }
  }
}
