import { type SQL, sql } from 'drizzle-orm'
import { groupName } from './request-groups.ts'
import type { RequestOutcome } from './request-records.ts'

const clientLeft = 499

export function hasOutcome(outcome: RequestOutcome, status: number, code: string | null): boolean {
  if (outcome === 'failed') return code !== null && status !== clientLeft
  return outcome === '5xx' ? status >= 500 : status >= 400 && status < clientLeft
}

/** The same of columns. */
export function outcomeFits(outcome: RequestOutcome, status: SQL, code: SQL): SQL {
  if (outcome === 'failed') return sql`(${code} is not null and ${status} <> ${sql.raw(String(clientLeft))})`
  return outcome === '5xx'
    ? sql`${status} >= 500`
    : sql`(${status} >= 400 and ${status} < ${sql.raw(String(clientLeft))})`
}

/** How the names begin of which a group has one, if one of its requests ended so. */
const beginnings: Readonly<Record<RequestOutcome, string>> = {
  failed: groupName('code', ''),
  '4xx': groupName('status', 4),
  '5xx': groupName('status', 5),
}

/** A group whose names leave the outcome open. Few groups have it: the others cost no more than a look at their names. */
export const groupMayHave = (outcome: RequestOutcome): SQL =>
  sql`exists (select from unnest(g.names) as n (name) where n.name like ${`${beginnings[outcome]}%`})`
