import type { SessionBegun } from '../../protocol/wire/admin/operators.ts'
import { callWith, Refusal, whyOf } from './api.ts'
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

/** The page forgets the session at once; the gateway ends it, or else its own time does. */
export async function leave(): Promise<void> {
  const { value } = token
  signOut()
  if (value !== null) await callWith(value, ownPlace, { method: 'DELETE', keepalive: true }).catch(() => {})
}
