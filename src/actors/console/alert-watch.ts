import { type Clock, systemClock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { wantedOf } from '../../machines/alerts/expression.ts'
import { History, type Readings } from '../../machines/alerts/history.ts'
import type { Rule } from '../../machines/alerts/rule.ts'
import { ownRules, wantedBy } from '../../machines/alerts/rules.ts'
import { type Standing, standingAt } from '../../machines/alerts/standing.ts'
import { secondMs } from '../../time.ts'

/** As often as ops/prometheus.yaml scrapes. */
const alertsEveryMs = 15 * secondMs

/** What the gateway reads for its rules. */
export const wantedForAlerts = wantedBy(ownRules)

export interface AlertsNow {
  /** Unix ms; null: not yet. */
  readonly atMs: number | null
  /** What holds, with times of Unix ms. */
  readonly standing: readonly Standing[]
  /** Rules without a metric to look at, on this computer. */
  readonly blind: readonly Rule[]
  /** Processes of this gateway that did not say what they have counted. */
  readonly silent: number
  /** Series for which there was no room. */
  readonly leftOut: number
}

export interface AlertWatchOptions {
  /** Of all processes of this gateway: what is wanted, by its name; the names of what has no metric here; who said nothing. */
  readonly read: () => Promise<{
    readonly readings: Readings
    readonly missing: ReadonlySet<string>
    readonly silent: number
  }>
  readonly log: Log
  readonly clock?: Clock | undefined
  /** Unix ms. */
  readonly now?: () => number
}

/** Evaluates the rules of the alerts, over what this process and its siblings have counted. */
export class AlertWatch {
  private readonly history = new History(wantedForAlerts, alertsEveryMs)
  private readonly looking: Loop
  private readonly clock: Clock
  /** From the clock, which never goes back, to Unix ms: the same for all times, so that none of them moves. */
  private readonly aheadMs: number
  private standing: readonly Standing[] = []
  private latest: AlertsNow = { atMs: null, standing: [], blind: [], silent: 0, leftOut: 0 }

  constructor(private readonly options: AlertWatchOptions) {
    const { log, clock = systemClock, now = Date.now } = options
    this.clock = clock
    this.aheadMs = now() - clock.now()
    this.looking = loop({
      everyMs: alertsEveryMs,
      run: () => this.look(),
      onFailure: (error) => log.warn('alerts_not_evaluated', { failure: failureName(error) }),
      clock,
    })
  }

  start(): void {
    void this.looking.startNow()
  }

  stop(): Promise<void> {
    return this.looking.stop()
  }

  current(): AlertsNow {
    return this.latest
  }

  private async look(): Promise<void> {
    const { readings, missing, silent } = await this.options.read()
    const { aheadMs } = this
    const atMs = this.clock.now()
    this.history.add(atMs, readings)
    this.standing = standingAt(ownRules, this.history, atMs, this.standing)
    this.latest = {
      atMs: atMs + aheadMs,
      standing: this.standing.map((each) => ({
        ...each,
        sinceMs: each.sinceMs + aheadMs,
        firesSinceMs: each.firesSinceMs === null ? null : each.firesSinceMs + aheadMs,
      })),
      blind: ownRules.filter(({ condition }) => wantedOf(condition.of).some(({ name }) => missing.has(name))),
      silent,
      leftOut: this.history.leftOut(),
    }
  }
}
