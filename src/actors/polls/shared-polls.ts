import { Alarm, type Clock, systemClock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { Outage } from '../../host/outage.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import type { Poll, Polls } from '../../protocol/wire/admin/processes.ts'
import type { Config } from '../../settings/config.ts'
import { PollBook } from './poll-book.ts'
import { readPolled } from './polled-text.ts'

/** So often in an interval of polls, and at least every `askEveryMsMax`, a process asks the leading one for what it has polled. */
const asksPerInterval = 5
const askEveryMsMax = 1_000
/** How many answers of one leader follow each other without a pause: enough for 100,000 nodes. */
const answersMax = 400
/** How long a node that is new here waits for the leader's next answer before it is polled from here, ms. */
export const firstNewsMsMax = 250
/** Over this time the polls of all nodes spread when a process begins to poll by itself, ms; of those that would count as silent, sooner. */
const resumeMs = 2_000
/** Without an answer of the leader for this share of the silence that a node is allowed, a process polls by itself. */
const patienceOfSilence = 1 / 3

/** The leader's answer, and by which name it is asked again. */
export interface LeadersAnswer {
  readonly leader: string
  readonly polls: Polls
}

/**
 * Asks one process, or with null all of them at once. Resolves with null where none of them leads and answers in time, which for one
 * is `withinMs`. Never rejects.
 */
export type AskLeader = (leader: string | null, since: number, withinMs: number) => Promise<LeadersAnswer | null>

/** The pool, as far as polls of another process concern it. */
export interface PolledPool {
  knows(nodeId: NodeId): boolean
  /** Takes over a poll of another process. False: not at this address of a node. `askedMs`: `performance.now()` when it went out. */
  take(nodeId: NodeId, way: string, result: PollResult, askedMs: number): boolean
  /** Polls a node from here, now. */
  poll(nodeId: NodeId): void
  /** Polls all nodes from here, each within so many ms, where no other process does by then. */
  resume(withinMs: (nodeId: NodeId) => number): void
}

export interface SharedPollsOptions {
  readonly config: Pick<Config, 'SVC_POLL_INTERVAL_MS' | 'SVC_PROBE_TIMEOUT_MS' | 'SVC_STALE_AFTER_MS'>
  readonly log: Log
  /** This process polls for all of its computer from the start. */
  readonly leads: boolean
  readonly ask: AskLeader
  readonly clock?: Clock
}

interface News {
  /** Who has told it, and its number there: what is told again is not another poll. */
  readonly leader: string
  readonly number: number
  readonly result: PollResult
  readonly askedMs: number
  /** The pool has taken it over. Else it is too old, or of another address, and the next poll may find the same. */
  readonly isTaken: boolean
}

/**
 * The processes of one computer ask each node once in an interval (§37): the leading one polls, and the others ask it for what
 * it has found. A process without an answer of a leader polls by itself.
 */
export class SharedPolls {
  private readonly book = new PollBook()
  private readonly clock: Clock
  private readonly asking: Loop
  /** Rings when the leader has said nothing for as long as `patienceMs`. */
  private readonly patience: Alarm
  private readonly patienceMs: number
  private readonly firstNewsDue: Alarm
  private readonly outage: Outage
  /** What the leader tells later than this after the poll, or not again, counts no more: it polls each node in half the time. */
  private readonly newsMsMax: number
  /** How long after the poll that it answered last a node is asked, ms: its answer comes before it counts as silent. */
  private readonly askedAgainMs: number
  private readonly silentMs: number
  private leads: boolean
  private pool: PolledPool | null = null
  private leader: string | null = null
  /** The leader's number up to which everything is known here. A leader without nodes here has nothing to tell. */
  private since = Number.MAX_SAFE_INTEGER
  private answeredMs = Number.NEGATIVE_INFINITY
  private failing = false
  /** The leader's last poll of each node of the pool. */
  private readonly news = new Map<NodeId, News>()
  /** Nodes that wait for the next question to the leader, and those of the question under way; at most those of the pool. */
  private readonly expected = new Set<NodeId>()
  private readonly inquired = new Set<NodeId>()

  constructor(private readonly options: SharedPollsOptions) {
    const { config, log, leads, clock = systemClock } = options
    const intervalMs = config.SVC_POLL_INTERVAL_MS
    const everyMs = Math.min(askEveryMsMax, intervalMs / asksPerInterval)
    this.leads = leads
    this.clock = clock
    this.patienceMs = Math.max(config.SVC_STALE_AFTER_MS * patienceOfSilence, 2 * everyMs)
    this.newsMsMax = 2 * intervalMs + config.SVC_PROBE_TIMEOUT_MS
    this.silentMs = config.SVC_STALE_AFTER_MS
    this.askedAgainMs = this.silentMs - config.SVC_PROBE_TIMEOUT_MS
    this.asking = loop({ pauseMs: everyMs, run: (stopped) => this.ask(stopped), clock })
    this.patience = new Alarm(() => this.pollByItself(), clock, false)
    this.firstNewsDue = new Alarm(() => this.pollUnheard(), clock, false)
    this.outage = new Outage(
      () => log.warn('polls_leader_silent'),
      () => log.info('polls_leader_answers'),
    )
  }

  /** Call it before the first nodes are known. */
  start(pool: PolledPool): void {
    this.pool = pool
    if (!this.leads) this.beginFollowing()
  }

  /** From now on this process polls for the others. */
  lead(): void {
    if (this.leads) return
    this.leads = true
    this.endFollowing()
    this.pollUnheard()
    this.resume()
  }

  /** Another process polls from now on. */
  follow(): void {
    if (!this.leads) return
    this.leads = false
    this.since = 0
    this.book.clear()
    if (this.pool !== null) this.beginFollowing()
  }

  stop(): void {
    this.pool = null
    this.endFollowing()
  }

  /** True while a rhythm is not to poll the node: the leader does, and tells. `pauseMs`: it polls this one so much less often. */
  spares(nodeId: NodeId, pauseMs = 0): boolean {
    if (this.leads) return false
    const news = this.news.get(nodeId)
    const nowMs = this.clock.now()
    if (news?.isTaken !== true || nowMs - this.answeredMs >= this.patienceMs) return false
    return nowMs - news.askedMs < this.newsMsMax + pauseMs
  }

  /**
   * A node is new here, or its address is. True: the leader is asked for it first, and where that tells nothing in time, the
   * pool is told to poll it.
   */
  expects(nodeId: NodeId): boolean {
    this.news.delete(nodeId)
    if (this.leads || this.failing || this.pool === null) return false
    this.expected.add(nodeId)
    if (!this.firstNewsDue.isSet) this.firstNewsDue.set(firstNewsMsMax)
    this.asking.soon(0)
    return true
  }

  /** This process has polled a node. */
  record(nodeId: NodeId, way: string, result: PollResult, askedMs: number): void {
    if (this.leads) this.book.record(nodeId, way, result, askedMs)
  }

  /** The node is gone. */
  forget(nodeId: NodeId): void {
    this.book.forget(nodeId)
    this.news.delete(nodeId)
    this.expected.delete(nodeId)
    this.inquired.delete(nodeId)
  }

  /** For another process: what this one has polled since; null: it does not lead. */
  told(since: number): Polls | null {
    return this.leads ? this.book.since(since, this.clock.now()) : null
  }

  private beginFollowing(): void {
    this.patience.set(this.patienceMs)
    void this.asking.startNow()
  }

  private endFollowing(): void {
    void this.asking.stop()
    this.patience.clear()
    this.leader = null
    this.since = 0
  }

  private pollByItself(): void {
    this.outage.failed(null)
    this.resume()
  }

  private resume(): void {
    const nowMs = this.clock.now()
    this.pool?.resume((nodeId) => {
      const agoMs = nowMs - (this.news.get(nodeId)?.askedMs ?? Number.NEGATIVE_INFINITY)
      // It is silent, or polled from here since: nothing is gained by haste, and thousands would be asked at once.
      return agoMs >= this.silentMs ? resumeMs : Math.min(resumeMs, Math.max(0, this.askedAgainMs - agoMs))
    })
  }

  /** Asks the leader for all that it has polled since. Without a leader all processes are asked who it is. */
  private async ask(stopped: AbortSignal): Promise<void> {
    for (const nodeId of this.expected) this.inquired.add(nodeId)
    this.expected.clear()
    if (this.inquired.size > 0) this.since = 0
    for (let answers = 0; answers < answersMax; answers++) {
      const sentMs = this.clock.now()
      // One that is only busy has all the time: the polls of all the others would make it no less so.
      const answer = await this.options.ask(this.leader, this.since, this.patienceMs)
      if (stopped.aborted) return
      if (answer === null) {
        this.unanswered()
        break
      }
      this.answered(answer, sentMs)
      if (!answer.polls.more) break
    }
    this.pollUnheard(this.inquired)
  }

  /** `sentMs`: when it was asked for. What the answer calls so many ms old was at least that old at that moment. */
  private answered({ leader, polls }: LeadersAnswer, sentMs: number): void {
    this.leader = leader
    this.since = polls.up_to
    this.answeredMs = this.clock.now()
    this.failing = false
    this.outage.worked()
    this.patience.set(this.patienceMs)
    if (this.firstNewsDue.isSet) this.firstNewsDue.set(firstNewsMsMax)
    for (const poll of polls.polls) this.hear(poll, leader, sentMs)
  }

  private hear(
    { node_id, way, number, asked_ms_ago: agoMs, result: text }: Poll,
    leader: string,
    sentMs: number,
  ): void {
    const nodeId = node_id as NodeId
    const known = this.news.get(nodeId)
    // For another node all polls are told again.
    if (known?.isTaken === true && known.number === number && known.leader === leader) return
    const result = typeof text === 'string' ? readPolled(text) : text === null ? null : known?.result
    const askedMs = sentMs - agoMs
    // Of a node that is only known there everything is told again when it is known here.
    if (result == null || this.pool?.knows(nodeId) !== true) {
      this.news.delete(nodeId)
      return
    }
    const isTaken = agoMs < this.newsMsMax && this.pool.take(nodeId, way, result, askedMs)
    this.news.set(nodeId, { leader, number, result, askedMs, isTaken })
  }

  private unanswered(): void {
    this.leader = null
    this.since = 0
    this.failing = true
  }

  /** Of the nodes that wait for news, polls those that have none. */
  private pollUnheard(waiting = new Set([...this.inquired, ...this.expected])): void {
    const unheard = [...waiting].filter((nodeId) => this.news.get(nodeId)?.isTaken !== true)
    for (const nodeId of waiting) {
      this.inquired.delete(nodeId)
      this.expected.delete(nodeId)
    }
    if (this.expected.size === 0) this.firstNewsDue.clear()
    for (const nodeId of unheard) this.pool?.poll(nodeId)
  }
}
