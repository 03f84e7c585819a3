import type { Prompt } from '../placement/blocks.ts'
import type { Matches } from '../placement/cache-view.ts'
import { type Candidate, cheapest, type RouteCost } from '../placement/cost.ts'
import { hoursOf, isWithin } from './hours.ts'

/** The time zone of hours that name none. */
const zoneOfGateways = 'UTC'

/** A route whose node sleeps. */
export interface Sleeper extends Candidate {
  readonly rank: number
  /** null: it does not. */
  readonly asleep: { readonly wakeable: boolean; readonly hours: string | null } | null
}

/** What is read of a request. */
export interface Waking {
  readonly access: { readonly policy: { readonly wakes: boolean } }
  readonly prompt: Prompt | null
  readonly matches: Matches
  readonly nowMs: number
}

/** Only sleeping nodes could serve the request. */
export interface Sleeping<R> {
  /** The one that is worth waking. */
  readonly route: R
  readonly cost: RouteCost
  /** Those that might be woken. */
  readonly routes: readonly R[]
}

/** Why no sleeping node may be woken for a request. */
export type WakeRefusal = 'policy' | 'no_address' | 'hours' | 'paused'

function isHour({ asleep }: Sleeper, nowMs: number): boolean {
  const hours = asleep?.hours == null ? null : hoursOf(asleep.hours)
  return hours === null || isWithin(hours, nowMs, zoneOfGateways)
}

const isPaused = ({ load }: Sleeper, nowMs: number) => load.reading.wake.isPaused(nowMs)

/** null: one of them may be. The nearest to yes is the reason. */
export function wakeRefusalOf(
  sleepers: readonly Sleeper[],
  request: Pick<Waking, 'access' | 'nowMs'>,
): WakeRefusal | null {
  if (!request.access.policy.wakes) return 'policy'
  const reachable = sleepers.filter(({ asleep }) => asleep?.wakeable === true)
  if (reachable.length === 0) return 'no_address'
  const timely = reachable.filter((route) => isHour(route, request.nowMs))
  if (timely.length === 0) return 'hours'
  return timely.some((route) => !isPaused(route, request.nowMs)) ? null : 'paused'
}

/** The one with the least expected first token, of the lowest rank; null: none may be woken. */
export function worthWaking<R extends Sleeper>(sleepers: readonly R[], request: Waking): Sleeping<R> | null {
  if (wakeRefusalOf(sleepers, request) !== null) return null
  const { prompt, matches, nowMs } = request
  const wakeable = sleepers.filter(
    (route) => route.asleep?.wakeable === true && isHour(route, nowMs) && !isPaused(route, nowMs),
  )
  const rank = Math.min(...wakeable.map((route) => route.rank))
  const [first, ...more] = wakeable.filter((route) => route.rank === rank)
  if (first === undefined) return null
  const routes: readonly [R, ...R[]] = [first, ...more]
  const { route, cost } = cheapest(routes, prompt, matches, nowMs)
  return { route, cost, routes }
}
