import { SettlementPackagesError } from '../actors/money/evm-chain.ts'
import { EmbeddedDatabaseError } from '../db/embedded/embedded.ts'
import { DataFolderError } from '../host/data-folder.ts'

/** A fault of the set-up that the operator can mend: its text is all they need. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/** Whether the text of an error was written for the operator. */
export const isTold = (error: unknown): error is Error =>
  [StartError, DataFolderError, EmbeddedDatabaseError, SettlementPackagesError].some((kind) => error instanceof kind)
