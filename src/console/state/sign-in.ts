import { sha256 } from '@noble/hashes/sha2.js'
import type { SessionBegun } from '../../protocol/wire/admin/operators.ts'
import { brand, callWith, Refusal, refusalOf, urlOf, whyOf } from './api.ts'
import { begin, farewell, signOut, token } from './session.ts'

const place = '/v1/admin/sessions'
const ownPlace = '/v1/admin/session'

const whyNot = (error: unknown) =>
  error instanceof Refusal && error.status === 401
    ? 'This token is not valid.'
    : `You are not signed in: ${whyOf(error)}`

/** Trades a role token for a session; the page keeps the session alone. Says on the page why it was refused. */
export async function signInWith(roleToken: string): Promise<void> {
  try {
    const response = await callWith(roleToken, place, { method: 'POST', body: {} })
    begin(((await response.json()) as SessionBegun).session_token)
  } catch (error) {
    farewell.value = whyNot(error)
  }
}

/** What the provider is called; null: this gateway has none. */
export async function providerLabel(): Promise<string | null> {
  const response = await fetch(urlOf('/v1/console/sign-in'), { cache: 'no-store' })
  return response.ok ? ((await response.json()) as { readonly oidc: string | null }).oidc : null
}

/** Of this tab alone: who has the cookies of a sign-in but not this gets no session. */
const secretKey = 'penstock-console-sign-in'
const secretHeader = `x-${brand}-sign-in-secret`
/** 32 bytes in hex. */
const newSecret = (): string =>
  crypto.getRandomValues(new Uint8Array(32)).reduce((all, byte) => all + byte.toString(16).padStart(2, '0'), '')
const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

/** Leads to the provider. `here`: this is the gateway's own address. */
export function goToProvider(here: boolean): void {
  const secret = newSecret()
  sessionStorage.setItem(secretKey, secret)
  const address = urlOf('/v1/console/oidc/begin')
  // Not `crypto.subtle`, which a page over plain HTTP has not.
  address.searchParams.set('tab', base64url(sha256(new TextEncoder().encode(secret))))
  if (here) address.searchParams.set('here', '')
  location.assign(address)
}

const failures: Readonly<Record<string, string>> = {
  no_role: 'None of your groups may use this console. Ask an administrator of the gateway for access.',
  denied: 'You were not signed in, because the sign-in was cancelled at the provider.',
  expired: 'The sign-in took too long, or began in another tab. Sign in again.',
  refused: 'The answer of the provider was not valid. Sign in again; if it fails again, ask an administrator.',
  provider_away: 'The provider does not answer now. Try again in a moment, or sign in with a role token.',
  full: 'As many people are signed in as this gateway allows. Ask an administrator to end sessions that nobody uses.',
  busy: 'Too many people are signing in at this moment. Try again.',
}
const wayBack = /^#sign-in\/([a-z_]+)$/

/** Reads what the way through the provider has left in the address, and takes it out of there. */
export async function comeBack(): Promise<void> {
  const outcome = wayBack.exec(location.hash)?.[1]
  if (outcome === undefined) return
  history.replaceState(null, '', `${location.pathname}${location.search}`)
  const secret = sessionStorage.getItem(secretKey) ?? ''
  sessionStorage.removeItem(secretKey)
  if (outcome === 'begin') return goToProvider(true)
  if (outcome !== 'done') {
    farewell.value = failures[outcome] ?? 'You were not signed in. Sign in again.'
    return
  }
  try {
    const response = await fetch(urlOf('/v1/console/oidc/session'), {
      method: 'POST',
      cache: 'no-store',
      headers: { [secretHeader]: secret },
    })
    if (!response.ok) throw await refusalOf(response)
    begin(((await response.json()) as SessionBegun).session_token)
  } catch (error) {
    farewell.value = `You are not signed in: ${whyOf(error)}`
  }
}

/** The page forgets the session at once; the gateway ends it, or else its own time does. */
export async function leave(): Promise<void> {
  const { value } = token
  signOut()
  if (value !== null) await callWith(value, ownPlace, { method: 'DELETE', keepalive: true }).catch(() => {})
}
