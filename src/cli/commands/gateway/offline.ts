import type { Restored } from '../../../offline/restore.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** Commands that work on a gateway's storage. Their user needs access to the data folder or to `DATABASE_URL`. */
const told: readonly string[] = ['OfflineError', 'DataFolderError', 'EmbeddedDatabaseError']

async function telling<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Error && told.includes(error.name)) throw new CliFailure(error.message)
    throw error
  }
}

const overwriteOption = (about: string) => ({ overwrite: { kind: 'flag', about } }) as const
const rowsIn = (rows: Readonly<Record<string, number>>) => Object.values(rows).reduce((sum, count) => sum + count, 0)

export const backup: Verb = {
  name: 'backup',
  about: 'Back up all data and secrets to one file',
  actions: action({
    about:
      'Write all data and secrets of SVC_DATA_DIR or DATABASE_URL to one file (mode 0600). The gateway may keep running',
    operands: [
      { name: 'FILE|FOLDER', about: 'The file to write. In a folder the backup gets the current time as its name' },
    ],
    options: overwriteOption('Replace an existing file'),
    run: async ({ operands: [target = ''], options, json }, session) => {
      const { writeBackup } = await import('../../../offline/backup.ts')
      const made = await telling(writeBackup({ env: session.env, target, overwrite: options.overwrite }))
      const body = { file: made.file, bytes: made.bytes, rows: made.rows, absent_secrets: made.absentSecrets }
      session.show(json, body, () => `${made.file}: ${rowsIn(made.rows)} rows, ${made.bytes} bytes\n`)
      if (made.absentSecrets.length > 0 && !json) {
        session.terminal.err(
          `The backup does not contain ${made.absentSecrets.join(', ')}, because they are not set here. Keep them elsewhere.\n`,
        )
      }
      return undefined
    },
  }),
}

function noteSecrets({ terminal }: Session, { dataDir, otherSecrets }: Restored, written: boolean): void {
  if (otherSecrets.length > 0) {
    terminal.err(
      `These settings differ from the backup: ${otherSecrets.join(', ')}. Append the old values to the new ones.\n`,
    )
  } else if (dataDir === null && !written) {
    terminal.err('The gateways need the secrets of the backup: --secrets-to FILE writes them as an environment file.\n')
  }
}

export const restore: Verb = {
  name: 'restore',
  about: 'Restore a backup while no gateway runs',
  actions: action({
    about: 'Load a whole backup into SVC_DATA_DIR or into the PostgreSQL of DATABASE_URL. No gateway may run',
    operands: [{ name: 'FILE', about: 'The file that `backup` wrote' }],
    options: {
      ...overwriteOption('Replace everything in the data folder or the database'),
      'secrets-to': {
        kind: 'text',
        value: 'FILE',
        about: 'Write the backup’s secrets to an environment file (mode 0600)',
      },
    },
    run: async ({ operands: [file = ''], options, json }, session) => {
      const { restoreBackup } = await import('../../../offline/restore.ts')
      const secretsTo = options['secrets-to'] ?? null
      const { overwrite } = options
      const restored = await telling(restoreBackup({ env: session.env, file, overwrite, secretsTo }))
      const body = {
        created_at: restored.createdAt,
        rows: restored.rows,
        data_dir: restored.dataDir,
        other_secrets: restored.otherSecrets,
      }
      const into = restored.dataDir ?? 'the database of DATABASE_URL'
      session.show(json, body, () => `${rowsIn(restored.rows)} rows of ${restored.createdAt} are in ${into}\n`)
      if (!json) noteSecrets(session, restored, secretsTo !== null)
      return undefined
    },
  }),
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
