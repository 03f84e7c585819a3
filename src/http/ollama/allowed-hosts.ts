import { Problem } from '../../errors.ts'
import { isWildcard, ownAddresses } from '../../host/own-addresses.ts'

/** `[::1]:11434` → `[::1]`; a trailing dot says nothing. */
const nameOf = (host: string) =>
  host
    .replace(/:[0-9]+$/, '')
    .replace(/\.$/, '')
    .toLowerCase()
const loopback = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])$/

/**
 * Callers need no key here, so that a web page must not reach this listener under a name of its own that leads to this
 * computer (DNS rebinding): only names of this computer, and those that the operator allows, are answered (§28).
 */
export function hostFault(listen: string, allowed: readonly string[]): (request: Request) => Problem | null {
  const own = isWildcard(listen) ? ownAddresses() : [listen.includes(':') ? `[${listen}]` : listen]
  const names = new Set([...own, ...allowed].map(nameOf))
  return ({ headers }) => {
    const name = nameOf(headers.get('host') ?? '')
    return loopback.test(name) || names.has(name) ? null : misdirected()
  }
}

const misdirected = () =>
  new Problem('misdirected_request', {
    param: 'header.host',
    detail: 'This listener answers to the names of this computer alone. SVC_ALLOWED_HOSTS allows further names.',
  })
