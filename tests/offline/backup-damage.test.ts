import { describe, expect, test } from 'bun:test'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { BackupError, readHeader } from '../../src/db/backup/backup-text.ts'
import { loadBackup } from '../../src/db/backup/restore.ts'
import { writeBackup } from '../../src/offline/backup.ts'
import { openBackup } from '../../src/offline/backup-file.ts'
import { everyRow } from '../support/leaks/every-row.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { openBench } from '../support/run/offline.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

let file = ''

const secrets = {
  SVC_TOKEN_PEPPER: 'pepper',
  SVC_SECRETS_KEY: 'secrets',
  SVC_AUDIT_KEY: 'audit',
  SVC_LOG_KEY: '77'.repeat(32),
}
/** As the release before signatures wrote it. */
const older = join(import.meta.dir, '../heavy/releases/aa044207/backup.sql.gz')

const bench = await fixture(openBench())
const database = await fixture(testDatabase())
const { sql } = database
await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    select 'c' || i, md5(i::text), decode(md5(i::text), 'hex'), '\\x02' from generate_series(1, 500) i`
file = bench.path('whole.sql.gz')
await writeBackup({ env: { DATABASE_URL: database.url, ...secrets }, target: file, overwrite: false })
const whole = readFileSync(file)

function changed(bytes: Uint8Array): string {
  const at = bench.path('changed.sql.gz')
  writeFileSync(at, bytes)
  return at
}

/** All of the text, or what is wrong with the file. */
async function read(at: string): Promise<string | BackupError> {
  try {
    const backup = await openBackup(at)
    if (backup === undefined) throw new Error('no file')
    const { source, close } = backup.read()
    const header = JSON.stringify(readHeader(await source.line()))
    close()
    return header
  } catch (error) {
    if (error instanceof BackupError) return error
    throw error
  }
}
const flipped = (bytes: Uint8Array, at: number, bit: number) => {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] ?? 0) ^ (1 << bit)
  return copy
}
const says = expect.stringMatching(/damaged/)

describe('§24: a backup is looked through before anything in it is used', () => {
  test('any flipped bit is damage', async () => {
    const edges = [...Array(40).keys(), ...Array.from({ length: 700 }, (_, at) => whole.length - 1 - at)]
    const places = fc.oneof(fc.nat({ max: whole.length - 1 }), fc.constantFrom(...edges))
    await fc.assert(
      fc.asyncProperty(places, fc.nat({ max: 7 }), async (at, bit) => {
        expect(await read(changed(flipped(whole, at, bit)))).toMatchObject({ name: 'BackupError', message: says })
      }),
      { numRuns: 400 },
    )
  })

  test('any cut tail is damage, and so is the seal that is gone whole', async () => {
    const seal = whole.lastIndexOf(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]))
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.integer({ min: 0, max: whole.length - 1 }), fc.constant(seal)), async (bytes) => {
        expect(await read(changed(whole.subarray(0, bytes)))).toMatchObject({ name: 'BackupError', message: says })
      }),
      { numRuns: 100, examples: [[seal], [0], [1], [whole.length - 1]] },
    )
  })

  test('what follows the end, stands before the beginning or was taken out between is damage', async () => {
    const seal = whole.lastIndexOf(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]))
    const cases = [
      [whole, Buffer.from('x')],
      [whole, Buffer.alloc(4_096)],
      [whole, Bun.gzipSync(Buffer.from('-- more\n'))],
      [Buffer.from('x'), whole],
      [whole.subarray(0, 100), whole.subarray(200)],
      [whole.subarray(0, seal), whole.subarray(seal), whole.subarray(seal)],
      [whole.subarray(0, seal), Bun.gzipSync(Buffer.from('-- more\n')), whole.subarray(seal)],
    ]
    for (const parts of cases) {
      expect(await read(changed(Buffer.concat(parts)))).toMatchObject({ name: 'BackupError', message: says })
    }
  })

  test('the format of before shows damage by the sums of gzip and its last line', async () => {
    const bytes = readFileSync(older)
    const text = await read(older)
    expect(text).toBeString()
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: bytes.length - 1 }), fc.nat({ max: 7 }), async (at, bit) => {
        const found = await read(changed(flipped(bytes, at, bit)))
        // Time and system in gzip's head mean nothing.
        if (typeof found === 'string') expect(found).toBe(text as string)
        else expect(found.message).toMatch(/damaged/)
      }),
      { numRuns: 200 },
    )
    for (const end of [bytes.length - 1, bytes.length - 8, 1_000, 20, 1]) {
      expect(await read(changed(bytes.subarray(0, end)))).toMatchObject({ name: 'BackupError', message: says })
    }
    const lines = Buffer.from(Bun.gunzipSync(bytes)).toString().split('\n')
    const cut = Bun.gzipSync(Buffer.from(`${lines.slice(0, -20).join('\n')}\n`))
    expect(await read(changed(cut))).toMatchObject({ name: 'BackupError', message: says })
  })

  test('a file that changes after it was verified is not restored', async () => {
    const at = bench.path('moving.sql.gz')
    copyFileSync(file, at)
    const backup = (await openBackup(at)) ?? expect.unreachable()
    const loaded = async () => {
      const target = await emptyDatabase()
      const { source, confirm, close } = backup.read()
      try {
        const header = readHeader(await source.line())
        const told = await loadBackup(target.url, header, source, { overwrite: false, confirm }).catch(String)
        return { told, rows: (await everyRow(target.url)).length }
      } finally {
        close()
        await target.drop()
      }
    }
    expect(await loaded()).toMatchObject({ told: { customers: 500 } })
    // The system in gzip's head, which is not part of the text.
    writeFileSync(at, flipped(whole, 9, 0))
    expect(await loaded()).toEqual({ told: expect.stringContaining('changed while it was read'), rows: 0 })
  })
})

// The header was parsed before the sums of gzip were compared.
test('§24: a damaged byte in the names of the secrets is damage, and no missing secret', async () => {
  for (const bytes of [whole, readFileSync(older)]) {
    await using target = await scoped(emptyDatabase())
    for (const at of [60, 150, 300]) {
      const bad = changed(flipped(bytes, at, 2))
      const env = { DATABASE_URL: target.url, ...secrets }
      const refused = await bench.cli.run(['restore', bad, '--unverified'], { env })
      expect(refused).toMatchObject({ code: 1, out: '' })
      expect(refused.err).toContain('The backup is damaged or incomplete.')
      expect(await everyRow(target.url)).toEqual([])
    }
  }
})

test('§24: a backup of the format of before is read, and said to carry no signature', async () => {
  for (const release of ['2bf003a', 'aa044207']) {
    await using target = await scoped(emptyDatabase())
    const at = join(import.meta.dir, '../heavy/releases', release, 'backup.sql.gz')
    const env = { DATABASE_URL: target.url }
    const refused = await bench.cli.run(['restore', at], { env })
    expect(refused).toMatchObject({ code: 1, out: '' })
    expect(refused.err).toContain('carries no signature')
    expect(await everyRow(target.url)).toEqual([])
    const ended = await bench.cli.run(['restore', at, '--unverified'], { env })
    expect([ended.out, ended.code]).toEqual([expect.stringContaining('Books      balance'), 0])
    expect(ended.err).toContain('NOT VERIFIED: the backup carries no signature.')
    expect((await everyRow(target.url)).filter(({ table }) => table === 'receipt_rows')).toHaveLength(12)
  }
})
