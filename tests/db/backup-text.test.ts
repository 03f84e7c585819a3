import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { BackupError, BackupSource, countLines, readHeader, readLine } from '../../src/db/backup/backup-text.ts'

async function* pieces(text: string, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  let at = 0
  for (let turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}

async function rowsOf(source: BackupSource): Promise<string> {
  let text = ''
  for await (const chunk of source.rows()) text += chunk.toString('latin1')
  return text
}

const row = fc.string({ unit: fc.constantFrom('a', '\\\\', '.', '\t', '\\n', 'é') })

test('§24: rows come out as they went in, however the bytes are cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(row, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 }),
      async (rows, sizes) => {
        const body = rows.map((text) => `${text}\n`).join('')
        const source = new BackupSource(pieces(`first\n${body}\\.\nlast\n`, sizes))
        expect(await source.line()).toBe('first')
        expect(await rowsOf(source)).toBe(Buffer.from(body).toString('latin1'))
        expect(await source.line()).toBe('last')
      },
    ),
  )
})

test('§24: a text that ends before its end is damaged', async () => {
  const source = () => new BackupSource(pieces('a\tb\nc\t', [3]))
  expect(rowsOf(source())).rejects.toBeInstanceOf(BackupError)
  expect(new BackupSource(pieces('no end of line', [5])).line()).rejects.toBeInstanceOf(BackupError)
})

test('§24: only lines that a backup can hold are read: nothing in them becomes SQL', () => {
  for (const line of [
    'DROP TABLE customers;',
    'COPY public."a"; drop table b; --" ("c") FROM stdin;',
    'COPY public."a" ("c", "d\\") FROM stdin;',
    `SELECT pg_catalog.setval('public."s"', 1); drop table b; --', true);`,
  ]) {
    expect(() => readLine(line)).toThrow(BackupError)
  }
  expect(() => readHeader('-- penstock-backup-v3 {}')).toThrow('v3')
  expect(() => readHeader('-- PostgreSQL database dump')).toThrow('not a Penstock backup')
})

test('rows are counted by their ends', () => {
  expect(countLines(Buffer.from('a\nb\n\n'))).toBe(3)
  expect(countLines(Buffer.from(''))).toBe(0)
})
