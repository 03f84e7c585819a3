import { SettlementPackagesError } from '../actors/money/evm-rpc.ts'
import { product } from '../brand.ts'
import { EmbeddedDatabaseError } from '../db/embedded/embedded.ts'
import { DatabaseNewerError } from '../db/migrate.ts'
import { DataFolderError } from '../host/data-folder.ts'
import { failureName } from '../log.ts'

/** A fault of the set-up that the operator can mend: its text is all they need. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/** Whether the text of an error was written for the operator. */
const isForOperator = (error: unknown): error is Error =>
  [StartError, DataFolderError, DatabaseNewerError, EmbeddedDatabaseError, SettlementPackagesError].some(
    (kind) => error instanceof kind,
  )

/** What a start that failed says: of an error that was not written for the operator no more than its name. */
export const startFault = (error: unknown): string =>
  isForOperator(error) ? error.message : `${product} could not start (${failureName(error)})`

const silent = 'Nothing answers at DATABASE_URL. Is PostgreSQL running, and are its host and port right?'
const refused = 'PostgreSQL refuses the user or the password of DATABASE_URL.'
/** By the system's code, the driver's or PostgreSQL's SQLSTATE. */
const databaseFaults: Readonly<Record<string, string>> = {
  ECONNREFUSED: silent,
  ENOENT: silent,
  ETIMEDOUT: silent,
  EHOSTUNREACH: silent,
  ENETUNREACH: silent,
  CONNECT_TIMEOUT: silent,
  ENOTFOUND: 'No computer has the name of the host in DATABASE_URL.',
  EAI_AGAIN: 'The name of the host in DATABASE_URL cannot be looked up now.',
  '28P01': refused,
  '28000': refused,
  '3D000': 'PostgreSQL has no database of the name in DATABASE_URL. Create it first.',
  '42501': 'The user of DATABASE_URL may not create tables in this database.',
  '53300': 'PostgreSQL takes no more connections. Raise its max_connections, or end a program that uses it.',
  '57P03': 'PostgreSQL is starting or stopping. Start again in a moment.',
}

/** An operator's own PostgreSQL that cannot be used, in words. Other errors come back as they are. */
export function databaseFault(error: unknown): unknown {
  const code = failureName(error)
  const said = databaseFaults[code]
  return said === undefined ? error : new StartError(`${said} (${code})`)
}
