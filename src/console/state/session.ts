import { signal } from '@preact/signals'

export type Role = 'viewer' | 'operator' | 'admin'
const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }

/** The token of the session: this tab's storage and the request header are the only places that ever see it. */
const storageKey = 'penstock-console-token'

export const token = signal<string | null>(sessionStorage.getItem(storageKey))
/** As the gateway says; null until it has answered. */
export const role = signal<Role | null>(null)
/** Whose session it is, as the gateway says; null: the role token bears no name. */
export const who = signal<string | null>(null)
/** Why the operator has to sign in again. */
export const farewell = signal<string | null>(null)

export function begin(given: string): void {
  sessionStorage.setItem(storageKey, given)
  farewell.value = null
  token.value = given
}

export function signOut(why: string | null = null): void {
  sessionStorage.removeItem(storageKey)
  token.value = null
  role.value = null
  who.value = null
  farewell.value = why
}

export const mayAct = (least: Role): boolean => role.value !== null && ranks[role.value] >= ranks[least]
