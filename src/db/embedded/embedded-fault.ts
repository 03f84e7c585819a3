/** A failure that the operator can fix. The message says how and contains no secret. */
export class EmbeddedDatabaseError extends Error {
  override readonly name = 'EmbeddedDatabaseError'
}

export const databaseUrlHint =
  'Set DATABASE_URL=postgres://user:password@host:5432/name to use a PostgreSQL of your own.'

/**
 * Only a missing file counts as missing. Without a free descriptor every file would seem missing, and a second server
 * would start.
 */
export function absent(error: unknown): null {
  const { code } = error as { readonly code?: unknown }
  if (code === 'ENOENT' || code === 'ESRCH') return null
  throw error
}
