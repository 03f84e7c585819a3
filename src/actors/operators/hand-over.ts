import { equalBytes, sha256Hex } from '../../secrets.ts'
import { minuteMs } from '../../time.ts'
import type { Sealing } from '../accounts/sealing.ts'

/** The page fetches its session as soon as it is open. */
export const handOverMs = minuteMs

interface Handed {
  readonly token: string
  /** See `HandOver.seal`. */
  readonly tab: string
  readonly untilMs: number
}

/**
 * Carries a session from the way back to the page by a cookie that is of no use by itself. A browser sends a cookie to
 * every port of the computer, also to a hostile model server there; only the tab that began has the secret.
 */
export class HandOver {
  constructor(
    private readonly sealing: Sealing,
    private readonly now: () => number,
  ) {}

  /** `tab`: the SHA-256 of the secret of the tab that began, in base64url. */
  seal(token: string, tab: string): string {
    const handed: Handed = { token, tab, untilMs: this.now() + handOverMs }
    return this.sealing.seal('oidc_session', JSON.stringify(handed)).toString('base64url')
  }

  /** The token of the session; null: the cookie is not ours or too old, or another tab asks. */
  open(sealed: string, secret: string): string | null {
    const text = this.sealing.open('oidc_session', Buffer.from(sealed, 'base64url'))
    if (text === null) return null
    const { token, tab, untilMs } = JSON.parse(text) as Handed
    const own = Buffer.from(sha256Hex(secret), 'hex')
    return untilMs > this.now() && equalBytes(own, Buffer.from(tab, 'base64url')) ? token : null
  }
}
