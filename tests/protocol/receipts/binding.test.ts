import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { commitment } from '../../../src/protocol/receipts/binding.ts'

const salt = Uint8Array.from({ length: 32 }, (_, at) => at)
const expected = (text: string) =>
  `0x${createHash('sha256').update(salt).update(new TextEncoder().encode(text)).digest('hex')}`

test.each([
  ['empty', ''],
  ['short', 'a word'],
  ['one byte below the length from which on another program hashes', 'x'.repeat(16 * 1024 - 1)],
  ['of that length', 'x'.repeat(16 * 1024)],
  ['of that length in bytes, not in units', 'ä'.repeat(8 * 1024)],
  ['long, with halves of characters', `${'中\ud800'.repeat(20_000)}\udc00`],
])('§31: a commitment is the SHA-256 of salt and text, whoever hashes it: %s', (_name, text) => {
  expect(commitment(salt, text)).toBe(expected(text))
})
