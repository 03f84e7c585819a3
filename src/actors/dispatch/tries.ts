import { inDigits } from '../../amounts.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import type { CustomerId } from '../../ids.ts'
import { isFree, type Side, sideOf } from '../../machines/rules/eligibility.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { Config } from '../../settings/config.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import type { WakeWait } from '../wake/wake-wait.ts'

const details: Partial<Record<ProblemCode, string>> = {
  upstream_error: 'The node failed before it answered.',
  upstream_timeout: 'The node did not answer in time.',
}

/** The codes that replace stream-only codes before the first byte (§3). */
const beforeFirstByte: Partial<Record<ProblemCode, ProblemCode>> = {
  node_lost: 'upstream_error',
  server_shutdown: 'service_unavailable',
  stream_idle_timeout: 'upstream_timeout',
}

/** Of which the tries are. */
export interface TriedRequest {
  readonly command: { readonly body: { readonly model: string }; readonly access: { readonly customerId: CustomerId } }
  promptEstimate(): { readonly tokens: number }
}

/** Both numbers, and whose the first one is; then the node's own words. */
function tooLongDetail({ problem, tooLong }: AttemptFailure, request: TriedRequest): string {
  const { promptTokens = null, contextLength = null } = tooLong ?? {}
  const { model } = request.command.body
  const counted =
    promptTokens === null
      ? `The prompt is too long by the node's count, and has ${inDigits(request.promptEstimate().tokens)} tokens by the gateway's estimate`
      : `The prompt has ${inDigits(promptTokens)} tokens by the node's count`
  const takes = contextLength === null ? `more than ${model} takes` : `${model} takes ${inDigits(contextLength)}`
  const said = problem?.options.detail
  return `${counted}; ${takes}.${said === undefined ? '' : ` The node says: ${said}`}`
}

function problemOf(failure: AttemptFailure, request: TriedRequest): Problem {
  const { problem, tooLong } = failure
  if (problem !== undefined && tooLong !== undefined) {
    return new Problem(problem.code, { ...problem.options, detail: tooLongDetail(failure, request) })
  }
  if (problem !== undefined) return problem
  const code = beforeFirstByte[failure.code] ?? failure.code
  const detail = details[code]
  return new Problem(code, {
    ...(detail === undefined ? {} : { detail }),
    ...(failure.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: failure.retryAfterSeconds }),
  })
}

/** Whose clocks they are. */
interface TimedRequest {
  readonly port: {
    readonly config: Pick<Config, 'SVC_TTFT_TIMEOUT_MS' | 'SVC_QUEUE_WAIT_MS' | 'SVC_COLD_WAIT_MS'>
  }
  readonly command: { readonly startedMs: number }
  readonly callsUntilMs: number
}

/** How long one request may take to its first token, whichever of its models is tried (`performance.now()`). */
export class Clocks {
  deadlineMs: number
  queueUntilMs: number
  /** The remaining time to wait for models to be loaded. */
  coldLeftMs: number
  /** For sleeping nodes; null: none was woken. */
  waking: WakeWait | null = null
  /** Decisions so far: they are one request's in `explain`. */
  looks = 0
  /** Models that could be tried now where this one does not answer. */
  modelsLeft = 0

  constructor({ port, command, callsUntilMs }: TimedRequest) {
    const { SVC_TTFT_TIMEOUT_MS, SVC_QUEUE_WAIT_MS, SVC_COLD_WAIT_MS } = port.config
    this.deadlineMs = command.startedMs + SVC_TTFT_TIMEOUT_MS
    this.queueUntilMs = Math.min(performance.now() + SVC_QUEUE_WAIT_MS, callsUntilMs)
    this.coldLeftMs = SVC_COLD_WAIT_MS
  }

  /** A load has its own clock: its time does not count in the other deadlines. */
  loadTook(ms: number, callsUntilMs: number): void {
    this.coldLeftMs = Math.max(0, this.coldLeftMs - ms)
    this.ownClock(ms, callsUntilMs)
  }

  /** A wait that does not count in the other deadlines. */
  ownClock(ms: number, callsUntilMs: number): void {
    this.deadlineMs += ms
    this.queueUntilMs = Math.min(this.queueUntilMs + ms, callsUntilMs)
  }
}

const noProfiles: ReadonlySet<string> = new Set()

/** The routes that one request was tried on, and why they did not serve it. */
export class Tries {
  /** Number of routes. */
  count = 0
  /** Their profiles; null: none has failed, as in nearly every request. */
  private profiles: Set<string> | null = null
  private failures: AttemptFailure[] | null = null
  /** The largest context, in tokens, for which a node found the prompt too long. */
  contextAbove: number | null = null
  /** Whose the first of them was when it was tried; null: none has failed. */
  side: Side = null
  /** One of them cost nothing then. */
  free = false

  /** `countMax`: routes that it may be tried on. */
  constructor(
    private readonly request: TriedRequest,
    private readonly countMax: number,
  ) {}

  get spent(): boolean {
    return this.count >= this.countMax
  }

  get anyFailed(): boolean {
    return this.failures !== null
  }

  /** A copy: the decision is kept, while the set grows with every try. */
  excluded(): ReadonlySet<string> {
    return this.profiles === null ? noProfiles : new Set(this.profiles)
  }

  /** The route may be tried once more. */
  forget(profileId: string): void {
    this.profiles?.delete(profileId)
  }

  /** True where another route may be worth a try. */
  failed(route: Route, failure: AttemptFailure): boolean {
    const { customerId } = this.request.command.access
    this.profiles ??= new Set()
    this.profiles.add(route.profileId)
    this.side ??= sideOf(route, customerId)
    this.free ||= isFree(route, customerId)
    this.note(failure)
    if (failure.contextAbove === undefined) return failure.failover
    // Once: the second machine was chosen for its larger context.
    const first = this.contextAbove === null
    this.contextAbove ??= failure.contextAbove
    return first && failure.failover
  }

  /** The answer for a request that ended before a route has served it. */
  ended(failure: AttemptFailure): Problem {
    this.note(failure)
    return this.givenUp()
  }

  /** Another route has served the request: the failures were those of their routes. */
  served(): void {
    if (this.failures !== null) for (const { strike } of this.failures) strike?.()
  }

  private note(failure: AttemptFailure): void {
    this.failures ??= []
    this.failures.push(failure)
  }

  /**
   * The answer for a request that no route serves. A request that failed on several routes is probably the cause
   * itself, so a failure counts against a route only if it was the only one tried (§27).
   */
  givenUp(late: ProblemCode | null = null): Problem {
    const failures = this.failures ?? []
    const [only, ...more] = failures.filter(({ strike }) => strike !== undefined)
    if (more.length === 0) only?.strike?.()
    if (late !== null) return problemOf({ code: late, failover: false }, this.request)
    // A machine with too small a context says nothing of a larger one that failed: there a retry may help.
    const last = failures.findLast(({ contextAbove }) => contextAbove === undefined) ?? failures.at(-1)
    return problemOf(last ?? { code: 'internal_error', failover: false }, this.request)
  }
}
