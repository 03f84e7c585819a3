import { Problem } from '../../errors.ts'
import { everyAddress, isWildcard } from '../../host/own-addresses.ts'

/** `[::1]:11434` → `[::1]`; a trailing dot says nothing. */
const nameOf = (host: string) =>
  host
    .replace(/:[0-9]+$/, '')
    .replace(/\.$/, '')
    .toLowerCase()
const loopback = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])$/

/**
 * Callers need no key here, so that a web page must not reach this listener under a name of its own that leads to this
 * computer (DNS rebinding): only loopback's names, the addresses that it listens on, and names that the operator allows are
 * answered (§28). A name of this computer is not among them, because the network's DNS gives it.
 */
export function hostFault(listen: string, allowed: readonly string[]): (request: Request) => Problem | null {
  const own = isWildcard(listen) ? everyAddress() : [listen.includes(':') ? `[${listen}]` : listen]
  const names = new Set([...own, ...allowed].map(nameOf))
  return ({ headers }) => {
    const name = nameOf(headers.get('host') ?? '')
    return loopback.test(name) || names.has(name) ? null : misdirected()
  }
}

const misdirected = () =>
  new Problem('misdirected_request', {
    param: 'header.host',
    detail:
      'This listener answers to localhost and to its own addresses. SVC_ALLOWED_HOSTS allows names, also that of this computer.',
  })
