import { nameCharactersMax, withoutUnseen } from '../../person-names.ts'
import { sha256Hex } from '../../secrets.ts'
import type { Role } from '../accounts/access.ts'

/** What a provider says of a person: its claims, unchecked but for their signature. */
export type Claims = Readonly<Record<string, unknown>>

const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }
const groupsMax = 1_000

/** `admin=GROUP`, as SVC_OIDC_ROLES has it. */
function grant(entry: string): readonly [role: Role, group: string] {
  const cut = entry.indexOf('=')
  return [entry.slice(0, cut) as Role, entry.slice(cut + 1)]
}

/** The groups of a claim: a list of texts, or one text. Of more than 1,000 the first count. */
function groupsIn(claim: unknown): readonly string[] {
  const all = Array.isArray(claim) ? claim : [claim]
  return all.slice(0, groupsMax).filter((group): group is string => typeof group === 'string')
}

export interface Granted {
  readonly role: Role
  /** The entry of SVC_OIDC_ROLES that gives it. */
  readonly entry: string
}

/** The highest role of all groups; null: none of them has one. */
export function roleOf(claims: Claims, claim: string, entries: readonly string[]): Granted | null {
  const groups = new Set(groupsIn(claims[claim]))
  let best: Granted | null = null
  for (const entry of entries) {
    const [role, group] = grant(entry)
    if (groups.has(group) && (best === null || ranks[role] > ranks[best.role])) best = { role, entry }
  }
  return best
}

/** Of the settings by which a person has her role: a session ends where the gateway does not have them any more. */
export const sourceOf = (
  {
    issuer,
    clientId,
    groupsClaim,
  }: { readonly issuer: string; readonly clientId: string; readonly groupsClaim: string },
  entry: string,
): Buffer => Buffer.from(sha256Hex(['oidc', issuer, clientId, groupsClaim, entry].join('\0')), 'hex')

/** What the audit calls the person. `subject`: the provider's own name for her, where the claim says nothing. */
export function nameOf(claims: Claims, claim: string, subject: string): string {
  const given = claims[claim]
  // The provider says that it has not checked the address: it may be another person's.
  const isChecked = claim !== 'email' || claims.email_verified !== false
  const said = typeof given === 'string' && isChecked ? withoutUnseen(given) : ''
  return [...(said === '' ? withoutUnseen(subject) : said)].slice(0, nameCharactersMax).join('')
}
