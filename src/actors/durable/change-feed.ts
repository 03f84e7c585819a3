import type { OpenDatabase } from '../../db/client.ts'
import { listenTo, type Topic, versionsQuery } from '../../db/queries/change-feed.ts'
import { within } from '../../deadline.ts'
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
  private readonly pollMs: number
  private readonly versions = new Map<Topic, number>()
  private readonly subscribers = new Map<Topic, Set<() => void | Promise<void>>>()
  private confirmedAt = 0
  private pollsSent = 0
  private pollsAnswered = 0
  private away = false
  private stopped = false
  private timer: ReturnType<typeof setTimeout> | null = null
  private unlisten: Promise<(() => Promise<void>) | null> | null = null

  constructor(private readonly options: ChangeFeedOptions) {
    this.readVersions = versionsQuery(options.db)
    this.now = options.now ?? Date.now
    this.pollMs = options.pollMs ?? pollMsDefault
  }

  /** Reads the versions once and then follows changes. It does not reject without the database but keeps trying. */
  async start(): Promise<void> {
    // It listens before the first read, so that it misses no change between the two.
    this.listen()
    await this.unlisten
    await this.poll()
  }

  async stop(): Promise<void> {
    this.stopped = true
    if (this.timer !== null) clearTimeout(this.timer)
    const unlisten = await this.unlisten
    if (unlisten != null) await within(pollAnswerMs, unlisten()).catch(() => {})
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

  private listen(): void {
    this.unlisten = listenTo(this.options.sql, channel, () => this.pollSoon()).catch(() => null)
  }

  /**
   * A notice only says that something changed, and the versions say what. So a lost or repeated notice does no harm.
   */
  private pollSoon(): void {
    if (this.stopped) return
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.poll(), 0)
  }

  private async poll(): Promise<void> {
    const sentAt = this.now()
    const number = ++this.pollsSent
    try {
      const versions = await within(pollAnswerMs, this.readVersions())
      // An answer that a later one has overtaken is older than what is known.
      if (number > this.pollsAnswered && !this.stopped) {
        this.pollsAnswered = number
        this.take(versions)
        this.confirmedAt = sentAt
      }
      if (this.away) this.returned()
    } catch (error) {
      if (!this.away && !this.stopped) {
        this.options.log.warn('change_feed_lost', { error: failureName(error) })
        this.away = true
      }
    }
    if (this.stopped) return
    if (this.timer !== null) clearTimeout(this.timer)
    // The driver itself delays reconnections, so this feed polls at a steady interval.
    this.timer = setTimeout(() => void this.poll(), this.pollMs)
    this.timer.unref()
  }

  private returned(): void {
    this.away = false
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
