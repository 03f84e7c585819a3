import { backoffMs } from '../../backoff.ts'

/** Passive ejection of one model on one node (§8; the defaults are Envoy's). */
export interface EjectionState {
  /** Failures to connect and timeouts since the last success. */
  readonly hardFailures: number
  /** 5xx answers since the last success. They count once two keys got one, or if the poll fails, too. */
  readonly serverErrors: number
  /** The key of the first 5xx. */
  readonly errorKeyId: string | null
  readonly errorKeysDiffer: boolean
  /** Ejections since the last success. */
  readonly timesEjected: number
  readonly ejectedAtMs: number
  /** Unix ms; 0 when never ejected. */
  readonly ejectedUntilMs: number
}

export interface RouteFailure {
  /** `load`: the model could not be brought into memory. */
  readonly cause: 'connect' | 'server_error' | 'timeout' | 'load'
  readonly keyId: string
  /** The node's own status polls fail as well. */
  readonly probeFailing: boolean
}

const failuresToEject = 5
const ejectionMaxMs = 300_000
/** A model that cannot be loaded: each further ejection is twice as long, up to this. */
const loadEjectionMaxMs = 900_000

export const healthy: EjectionState = {
  hardFailures: 0,
  serverErrors: 0,
  errorKeyId: null,
  errorKeysDiffer: false,
  timesEjected: 0,
  ejectedAtMs: 0,
  ejectedUntilMs: 0,
}

/** `baseMs`: the first ejection; the n-th lasts n times as long, at most `ejectionMaxMs`. */
export function afterFailure(
  state: EjectionState,
  failure: RouteFailure,
  nowMs: number,
  baseMs: number,
): EjectionState {
  // A call that began before the ejection says nothing new.
  if (nowMs < state.ejectedUntilMs) return state
  if (failure.cause === 'load') {
    const timesEjected = state.timesEjected + 1
    const ejectedMs = backoffMs({ firstMs: baseMs, maxMs: loadEjectionMaxMs }, timesEjected)
    return { ...healthy, timesEjected, ejectedAtMs: nowMs, ejectedUntilMs: nowMs + ejectedMs }
  }
  const isServerError = failure.cause === 'server_error'
  const hardFailures = state.hardFailures + (isServerError ? 0 : 1)
  const serverErrors = state.serverErrors + (isServerError ? 1 : 0)
  const errorKeyId = state.errorKeyId ?? (isServerError ? failure.keyId : null)
  const errorKeysDiffer = state.errorKeysDiffer || (isServerError && errorKeyId !== failure.keyId)
  const counted = hardFailures + (errorKeysDiffer || failure.probeFailing ? serverErrors : 0)
  if (counted < failuresToEject) return { ...state, hardFailures, serverErrors, errorKeyId, errorKeysDiffer }
  const timesEjected = state.timesEjected + 1
  return {
    ...healthy,
    timesEjected,
    ejectedAtMs: nowMs,
    ejectedUntilMs: nowMs + Math.min(baseMs * timesEjected, ejectionMaxMs),
  }
}

/** A success of a call that began after the ejection lifts it: the route served as the last one left. */
export function afterSuccess(state: EjectionState, startedAtMs: number): EjectionState {
  if (state === healthy || startedAtMs < state.ejectedAtMs) return state
  return healthy
}
