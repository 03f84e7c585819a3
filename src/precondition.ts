import { Problem } from './errors.ts'

/** What the caller of a change says of the row that it has read (RFC 9110, 13.1). */
export interface Precondition {
  /** `If-Match`: the row has one of these revisions; `*`: it is there. null: the caller did not say. */
  readonly match: readonly string[] | '*' | null
  /** `If-None-Match: *`: there is no such row. */
  readonly absent: boolean
}

/** As it stands in the header `ETag`. Strong: a revision is another one after each change of what can be edited. */
export const etagOf = ({ revision }: { readonly revision: string }): string => `"${revision}"`

/**
 * Refuses a change of what the caller has not seen. `row`: as it is now, locked by the transaction that changes it, so that of
 * two who have read the same row one is refused. null: the request names no version.
 */
export function checkPrecondition(precondition: Precondition | null, row: { readonly revision: string } | null): void {
  if (precondition === null) return
  const { match, absent } = precondition
  if (absent && row !== null)
    throw new Problem('precondition_failed', { detail: 'It is there already. Read it, and decide what to send.' })
  if (match === null || (row !== null && (match === '*' || match.includes(row.revision)))) return
  throw new Problem('precondition_failed', {
    detail:
      row === null
        ? 'It is not there any more. Read it again, and decide what to send.'
        : 'Somebody has changed it since you read it. Read it again, and decide what to send.',
  })
}
