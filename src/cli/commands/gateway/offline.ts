import { action, type Verb } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'

/** Commands that work on a gateway's storage. Their user needs access to the data folder or to `DATABASE_URL`. */
const operatorErrors: readonly string[] = ['OfflineError', 'DataFolderError', 'EmbeddedDatabaseError']

export async function telling<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Error && operatorErrors.includes(error.name)) throw new CliFailure(error.message)
    throw error
  }
}

export const resetAdmin: Verb = {
  name: 'reset-admin',
  about: 'Make a new admin token when all are lost',
  actions: action({
    about: 'Make a new admin token in SVC_DATA_DIR or DATABASE_URL and print it, once. Earlier ones stop working',
    options: {},
    run: async ({ json }, session) => {
      const { resetAdmin: reset } = await import('../../../offline/reset-admin.ts')
      const made = await telling(reset(session.env))
      const body = { admin_token: made.adminToken, ended: made.ended, credentials_file: made.credentialsFile }
      session.show(json, body, () => `${made.adminToken}\n`)
      if (!json && made.credentialsFile !== null)
        session.terminal.err(`The file ${made.credentialsFile} has it, too.\n`)
      return undefined
    },
  }),
}
