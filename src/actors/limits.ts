import type { Access } from './access.ts'

/** One admitted request: give back what it took, exactly once. */
export interface Admission {
  /** `tokens`: what it really used; the difference to the reservation goes back to the day's quota. */
  settle(tokens: number): void
}

/** Quota, rate and concurrency of an account, exact over all gateways on one PostgreSQL (decisions §17). */
export interface Limits {
  /**
   * Admits or refuses with `Problem` (`rate_limited`, `concurrency_limited`, `daily_token_quota_exceeded`). Not a
   * promise where the account has no limits or the local lease suffices: then the request path does not wait.
   * `tokens`: a ceiling of what the request can use.
   */
  admit(access: Access, tokens: number): Admission | Promise<Admission>
}
