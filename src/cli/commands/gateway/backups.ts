import type { Restored } from '../../../offline/restore.ts'
import { type NoteKey, noteKinds, parseNoteKey } from '../../../protocol/log/note.ts'
import { action, type Verb } from '../../frame/action.ts'
import { exitCodes, UsageFault } from '../../frame/failure.ts'
import { GatewayClient } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'
import { printable } from '../../frame/terminal.ts'
import { telling } from './offline.ts'

const overwriteOption = (about: string) => ({ overwrite: { kind: 'flag', about } }) as const
const rowsIn = (rows: Readonly<Record<string, number>>) => Object.values(rows).reduce((sum, count) => sum + count, 0)

export const backup: Verb = {
  name: 'backup',
  about: 'Back up all data and secrets to one file',
  actions: action({
    about:
      'Write all data and secrets of SVC_DATA_DIR or DATABASE_URL to one signed file (mode 0600). The gateway may keep running',
    operands: [
      { name: 'FILE|FOLDER', about: 'The file to write. In a folder the backup gets the current time as its name' },
    ],
    options: {
      ...overwriteOption('Replace an existing file'),
      'without-log-key': {
        kind: 'flag',
        about: 'Leave SVC_LOG_KEY out, so that who reads the file cannot sign another. Keep that key elsewhere',
      },
    },
    run: async ({ operands: [target = ''], options, json }, session) => {
      const { writeBackup } = await import('../../../offline/backup.ts')
      const { overwrite, 'without-log-key': withoutLogKey } = options
      const made = await telling(writeBackup({ env: session.env, target, overwrite, withoutLogKey }))
      const { file, bytes, rows, signedBy } = made
      const body = { file, bytes, rows, signed_by: signedBy, absent_secrets: made.absentSecrets }
      session.show(json, body, () => `${file}: ${rowsIn(rows)} rows, ${bytes} bytes\n${signedLine(signedBy)}`)
      if (json) return undefined
      if (signedBy.length === 0) {
        session.terminal.err('The backup is not signed, because SVC_LOG_KEY is not set here.\n')
      }
      if (made.absentSecrets.length > 0) {
        session.terminal.err(
          `The backup does not contain ${made.absentSecrets.join(', ')}, because they are not set here. Keep them elsewhere.\n`,
        )
      }
      return undefined
    },
  }),
}

const signedLine = ([key]: readonly string[]) =>
  key === undefined ? '' : `Signed by ${key} (keep this key apart: restore --log-key checks the file with it)\n`

const keyBytesMax = 64 * 1024

/** The keys in what somebody kept: a key a line, or the answer of `/v1/public/log/keys`. */
function keysIn(text: string): readonly NoteKey[] {
  const words = text.split(/[\s"',]+/)
  return words.flatMap((one) => parseNoteKey(one) ?? []).filter(({ kind }) => kind === noteKinds.signature)
}

async function keptText(session: Session, given: string): Promise<string> {
  if (parseNoteKey(given) !== null) return given
  if (/^https?:\/\//.test(given)) {
    const gateway = new GatewayClient({
      ...session.connection(),
      baseUrl: given.replace(/\/+$/, ''),
      adminToken: null,
      gatewayKey: null,
    })
    return JSON.stringify((await gateway.get('/v1/public/log/keys', false)).body)
  }
  const file = Bun.file(given.replace(/^@/, ''))
  if (!(await file.exists()) || file.size > keyBytesMax) {
    throw new UsageFault('--log-key must be a key NAME+HASH+BASE64, a file with such keys, or the URL of a gateway')
  }
  return file.text()
}

async function logKeys(session: Session, given: readonly string[]): Promise<readonly Uint8Array[]> {
  const texts = await Promise.all(given.map((one) => keptText(session, one)))
  const keys = texts.map(keysIn)
  if (keys.some(({ length }) => length === 0)) throw new UsageFault('--log-key names no key of a log')
  return keys.flat().map(({ publicKey }) => publicKey)
}

function noteAuthor({ terminal }: Session, { author: { verified, key } }: Restored): void {
  if (verified) return
  terminal.err(
    key === null
      ? 'NOT VERIFIED: the backup carries no signature. Nothing shows who wrote it.\n'
      : `NOT VERIFIED: the signature was checked only against the key in the file (${key}), which proves nothing about who wrote it.\n`,
  )
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

function noteLog({ terminal }: Session, { dataDir, books: { lostLogSize, logEntries } }: Restored): void {
  if (lostLogSize === null) return
  const [had, then] =
    dataDir === null
      ? ['the database had', 'Witnesses refuse a log that does not lead on']
      : ['this folder has seen', 'The gateway will log log_forked']
  terminal.err(
    `The public log of the backup has ${logEntries} entries, and ${had} ${lostLogSize}. ${then}: see "After a restore" in docs/trust.md.\n`,
  )
}

/** How many faults stand in a terminal; JSON has all. */
const faultsShownMax = 20

const verdictLines = ({ author, books }: Restored): readonly (readonly [string, string])[] => {
  const faults = [...books.brokenRules, ...books.faults.map(({ rule, subject }) => `${rule}: ${subject}`)]
  const more = faults.length - faultsShownMax
  return [
    ['Signature', author.verified ? `holds: ${author.key}` : 'NOT VERIFIED'],
    ['Books', books.sound ? 'balance' : 'DO NOT HOLD'],
    ...faults.slice(0, faultsShownMax).map((fault) => ['Broken', printable(fault)] as const),
    ...(more > 0 ? [['Broken', `${more} more, with --json`] as const] : []),
    ['Rows', `${books.receipts} receipts and ${books.logEntries} entries of the public log were checked`],
  ]
}

function shown(restored: Restored) {
  const { author, books } = restored
  return {
    created_at: restored.createdAt,
    rows: restored.rows,
    data_dir: restored.dataDir,
    other_secrets: restored.otherSecrets,
    verified: author.verified,
    signed_by: author.key,
    books: {
      sound: books.sound,
      receipts: books.receipts,
      log_entries: books.logEntries,
      broken_rules: books.brokenRules,
      faults: books.faults,
      lost_log_size: books.lostLogSize,
    },
  }
}

export const restore: Verb = {
  name: 'restore',
  about: 'Restore a backup while no gateway runs, and check its books',
  actions: action({
    about:
      'Load a whole backup into SVC_DATA_DIR or into the PostgreSQL of DATABASE_URL, and check its books. No gateway may run',
    operands: [{ name: 'FILE', about: 'The file that `backup` wrote' }],
    options: {
      ...overwriteOption('Replace everything in the data folder or the database'),
      'log-key': {
        kind: 'texts',
        value: 'KEY|FILE|URL',
        about:
          'The log key that signed the backup: as you kept it, or of a gateway that runs (default: of the gateway whose data is here)',
      },
      unverified: { kind: 'flag', about: 'Restore a backup although no known key has signed it' },
      'secrets-to': {
        kind: 'text',
        value: 'FILE',
        about: 'Write the backup’s secrets to an environment file (mode 0600)',
      },
    },
    run: async ({ operands: [file = ''], options, json }, session) => {
      const { overwrite, unverified } = options
      if (unverified && options['log-key'].length > 0) throw new UsageFault('Give either --log-key or --unverified')
      const { restoreBackup } = await import('../../../offline/restore.ts')
      const secretsTo = options['secrets-to'] ?? null
      const keys = await logKeys(session, options['log-key'])
      const given = { env: session.env, file, overwrite, secretsTo, logKeys: keys, unverified }
      const restored = await telling(restoreBackup(given))
      const into = restored.dataDir ?? 'the database of DATABASE_URL'
      session.show(
        json,
        shown(restored),
        () =>
          `${rowsIn(restored.rows)} rows of ${restored.createdAt} are in ${into}\n${fields(session.terminal, verdictLines(restored))}`,
      )
      if (!json) {
        noteAuthor(session, restored)
        noteSecrets(session, restored, secretsTo !== null)
        noteLog(session, restored)
      }
      return restored.books.sound ? undefined : exitCodes.failed
    },
  }),
}
