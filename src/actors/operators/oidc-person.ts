import type { Role } from '../accounts/access.ts'

/** What a provider says of a person: its claims, unchecked but for their signature. */
export type Claims = Readonly<Record<string, unknown>>

const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }
const groupsMax = 1_000
const nameCharactersMax = 64
/** Also what turns the direction of a text around, or is not seen: a name must look like what it is. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

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

/** The highest role of all groups; null: none of them has one. */
export function roleOf(claims: Claims, claim: string, entries: readonly string[]): Role | null {
  const groups = new Set(groupsIn(claims[claim]))
  let best: Role | null = null
  for (const [role, group] of entries.map(grant)) {
    if (groups.has(group) && (best === null || ranks[role] > ranks[best])) best = role
  }
  return best
}

/** What the audit calls the person. `subject`: the provider's own name for her, where the claim says nothing. */
export function nameOf(claims: Claims, claim: string, subject: string): string {
  const given = claims[claim]
  const said = typeof given === 'string' ? given.replaceAll(unseen, '').trim() : ''
  return [...(said === '' ? subject.replaceAll(unseen, '') : said)].slice(0, nameCharactersMax).join('')
}
