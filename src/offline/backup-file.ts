import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import {
  BackupError,
  BackupSource,
  damaged,
  endPrefix,
  foreign,
  formatBefore,
  formatOf,
} from '../db/backup/backup-text.ts'
import { failureName } from '../log.ts'
import { readSeal, type Seal } from './backup-seal.ts'

/** A backup that was read once, from its first byte to its last: nothing in it is damaged. */
export interface BackupFile {
  /** null: of a format from before backups had one. */
  readonly seal: Seal | null
  /** Reads it again. `confirm` rejects unless the bytes were the same as before. */
  read(): BackupReading
}

export interface BackupReading {
  readonly source: BackupSource
  confirm(): Promise<void>
  close(): void
}

/** Longer than any first line up to the end of its format. */
const beginningBytes = 64
/** Longer than the last line, which counts the rows of each table. */
const endBytes = 256 * 1024
const gzipMagic = '1f8b'

const changed = () => new BackupError('The backup was changed while it was read. Nothing was restored.')

/** The text of the file's first `bytes` bytes, and their hash once it was read to its end. */
function contentOf(file: string, bytes: number) {
  const hash = createHash('sha256')
  let hashed = 0
  const raw = createReadStream(file, { end: bytes - 1 })
  const counted = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk)
      hashed += chunk.length
      done(null, chunk)
    },
  })
  const text = createGunzip()
  // An error of each of them reaches the reader of the text.
  pipeline(raw, counted, text, () => {})
  return {
    text,
    /** null: the text ended before the bytes did. */
    digest: () => (hashed === bytes ? hash.digest('hex') : null),
    close: () => raw.destroy(),
  }
}

async function hashOf(file: string, bytes: number): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file, { end: bytes - 1 })) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

/** Without a seal only the whole text shows damage: gzip's sums, the first line and the last one. */
async function readUnsealed(file: string, bytes: number): Promise<string> {
  const { text, digest } = contentOf(file, bytes)
  let beginning = Buffer.alloc(0)
  const kept: Buffer[] = []
  let keptBytes = 0
  for await (const chunk of text as AsyncIterable<Buffer>) {
    if (beginning.length < beginningBytes) beginning = Buffer.concat([beginning, chunk]).subarray(0, beginningBytes)
    kept.push(chunk)
    keptBytes += chunk.length
    while (keptBytes - (kept[0]?.length ?? 0) >= endBytes) keptBytes -= kept.shift()?.length ?? 0
  }
  // One that should have a seal has lost it.
  if (formatOf(beginning.toString('latin1')) !== formatBefore) throw damaged()
  const end = Buffer.concat(kept).toString('latin1')
  if (!end.endsWith('\n') || !end.slice(end.lastIndexOf('\n', end.length - 2) + 1).startsWith(endPrefix))
    throw damaged()
  const sha256 = digest()
  if (sha256 === null) throw damaged()
  return sha256
}

async function look(file: string, size: number) {
  const handle = await open(file, 'r').catch((error: unknown) => {
    throw new BackupError(`${file} cannot be read (${failureName(error)}).`)
  })
  try {
    const magic = Buffer.alloc(2)
    await handle.read(magic, 0, 2, 0)
    return { seal: await readSeal(handle, size), isGzip: magic.toString('hex') === gzipMagic }
  } finally {
    await handle.close()
  }
}

const streamFaults = ['Z_DATA_ERROR', 'Z_BUF_ERROR', 'ERR_STREAM_PREMATURE_CLOSE']

/** Damage that a stream or the parser has found is told as such. */
export function damageOf(error: unknown): unknown {
  const code = (error as { readonly code?: unknown } | null)?.code
  return error instanceof SyntaxError || streamFaults.includes(String(code)) ? damaged() : error
}

/**
 * Reads the file once before anything in it is used. Its memory is that of one piece. Throws `BackupError` for a file that
 * is damaged, changed or no backup; undefined: there is no such file.
 */
export async function openBackup(file: string): Promise<BackupFile | undefined> {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found?.isFile() !== true) return undefined
  const { seal, isGzip } = await look(file, found.size)
  if (seal === 'unsound') {
    throw new BackupError('A signature in the backup does not hold: the file is damaged, or somebody changed it.')
  }
  if (seal === null && !isGzip) throw foreign()
  if (seal?.bytes === 0) throw damaged()
  const bytes = seal?.bytes ?? found.size
  const sha256 = await (seal === null ? readUnsealed(file, bytes) : hashOf(file, bytes)).catch((error: unknown) => {
    throw damageOf(error)
  })
  if (seal !== null && seal.sha256 !== sha256) throw damaged()
  return {
    seal,
    read: () => {
      const { text, digest, close } = contentOf(file, bytes)
      return {
        source: new BackupSource(text),
        close,
        confirm: async () => {
          if (digest() !== sha256) throw changed()
        },
      }
    },
  }
}
