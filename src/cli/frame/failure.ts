/**
 * Exit codes. `usage` means that the command line itself is wrong. `unanswered` means that the command did its work, but
 * what it added does not answer. `unverifiable` means that a file holds nothing that `verify` knows.
 */
export const exitCodes = { ok: 0, failed: 1, usage: 2, unanswered: 3, unverifiable: 4, interrupted: 130 } as const

/** A failure that is shown in one or two lines and never as a stack. */
export class CliFailure extends Error {
  override readonly name: string = 'CliFailure'
  constructor(
    message: string,
    /** Further lines, such as advice or a request id. */
    readonly notes: readonly string[] = [],
    readonly exitCode: number = exitCodes.failed,
  ) {
    super(message)
  }

  json(): object {
    return { message: this.message, ...(this.notes.length === 0 ? {} : { notes: this.notes }) }
  }
}

/** An unknown option, a missing operand or an impossible value. */
export class UsageFault extends CliFailure {
  override readonly name = 'UsageFault'
  constructor(message: string, notes: readonly string[] = []) {
    super(message, notes, exitCodes.usage)
  }
}

/** The fields of a refusal that a person can use; absent where the gateway did not send them. */
export interface Refusal {
  readonly status: number
  readonly code: string | null
  readonly title: string
  readonly detail: string | null
  readonly requestId: string | null
  readonly retryAfterSeconds: number | null
}

/** The gateway answered with a refusal. */
export class GatewayRefusal extends CliFailure {
  override readonly name = 'GatewayRefusal'
  constructor(
    readonly refusal: Refusal,
    hints: readonly string[] = [],
  ) {
    const { title, detail, code, status, requestId, retryAfterSeconds } = refusal
    super(`${title} (${code ?? `HTTP ${status}`})`, [
      ...(detail === null || detail === title ? [] : [detail]),
      ...(retryAfterSeconds === null ? [] : [`Try again in ${retryAfterSeconds} s.`]),
      ...hints,
      ...(requestId === null ? [] : [`Request ${requestId}`]),
    ])
  }

  override json(): object {
    const { status, code, title, detail, requestId, retryAfterSeconds } = this.refusal
    return { status, code, title, detail, request_id: requestId, retry_after_seconds: retryAfterSeconds }
  }
}
