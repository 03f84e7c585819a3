import type { Restored } from '../../../offline/restore.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** Commands on a gateway's storage itself: who may run them holds its data folder, or `DATABASE_URL`. */
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
  about: 'Write data and secrets into one file, while the gateway runs',
  actions: action({
    about: 'Write all data and secrets of SVC_DATA_DIR or DATABASE_URL into one file (0600); the gateway may run',
    operands: [{ name: 'FILE|FOLDER', about: 'Where to; in a folder the file is named by the time' }],
    options: overwriteOption('Replace a file that is there'),
    run: async ({ operands: [target = ''], options, json }, session) => {
      const { writeBackup } = await import('../../../offline/backup.ts')
      const made = await telling(writeBackup({ env: session.env, target, overwrite: options.overwrite }))
      const body = { file: made.file, bytes: made.bytes, rows: made.rows, absent_secrets: made.absentSecrets }
      session.show(json, body, () => `${made.file}: ${rowsIn(made.rows)} rows, ${made.bytes} bytes\n`)
      if (made.absentSecrets.length > 0 && !json) {
        session.terminal.err(
          `Not in it, because not set here: ${made.absentSecrets.join(', ')}. Keep them elsewhere.\n`,
        )
      }
      return undefined
    },
  }),
}

function noteSecrets({ terminal }: Session, { dataDir, otherSecrets }: Restored, written: boolean): void {
  if (otherSecrets.length > 0) {
    terminal.err(
      `Set to something else than in the backup: ${otherSecrets.join(', ')}. Put the old ones behind the new.\n`,
    )
  } else if (dataDir === null && !written) {
    terminal.err('The gateways need the secrets of the backup: --secrets-to FILE writes them as an environment file.\n')
  }
}

export const restore: Verb = {
  name: 'restore',
  about: 'Put a backup in the place of what is there; no gateway may run',
  actions: action({
    about: 'Load a backup into SVC_DATA_DIR, or into the PostgreSQL of DATABASE_URL; all of it or nothing',
    operands: [{ name: 'FILE', about: 'Made by `backup`' }],
    options: {
      ...overwriteOption('Replace what the data folder or the database holds'),
      'secrets-to': { kind: 'text', value: 'FILE', about: "Write the backup's secrets as an environment file (0600)" },
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
  about: 'Make a new admin token where all are lost; the others end',
  actions: action({
    about: 'Make a new admin token in SVC_DATA_DIR or DATABASE_URL and end those made before; prints it once',
    options: {},
    run: async ({ json }, session) => {
      const { resetAdmin: reset } = await import('../../../offline/reset-admin.ts')
      const made = await telling(reset(session.env))
      const body = { admin_token: made.adminToken, ended: made.ended, credentials_file: made.credentialsFile }
      session.show(json, body, () => `${made.adminToken}\n`)
      if (!json && made.credentialsFile !== null) session.terminal.err(`It is in ${made.credentialsFile}, too.\n`)
      return undefined
    },
  }),
}
