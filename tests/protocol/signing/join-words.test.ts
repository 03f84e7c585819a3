import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { wordlist } from '@scure/bip39/wordlists/english'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { joinCommitment, joinMessage, joinWords } from '../../../src/protocol/signing/join-words.ts'
import { plainWords } from '../../../src/protocol/signing/plain-words.ts'

const text = (byte: number) => Buffer.alloc(32, byte).toString('base64url')
const node = {
  publicKey: signingKey(Uint8Array.from({ length: 32 }, (_, at) => 0x11 + at)).publicKey,
  nonce: text(1),
}
const gateway = { publicKey: signingKey(new Uint8Array(32).fill(0x22)).publicKey, nonce: text(2) }

test('§39: the vector of docs/protocol.md', () => {
  const page = readFileSync(join(import.meta.dir, '../../../docs/protocol.md'), 'utf8')
  const [, block = ''] = /<!-- join:begin -->\n```json\n([\s\S]*?)\n```\n<!-- join:end -->/.exec(page) ?? []
  expect(JSON.parse(block)).toEqual({
    node_public_key: node.publicKey,
    node_nonce: node.nonce,
    node_commitment: joinCommitment('node', node),
    gateway_public_key: gateway.publicKey,
    gateway_nonce: gateway.nonce,
    gateway_commitment: joinCommitment('gateway', gateway),
    words: joinWords(node, gateway),
  })
})

test('§39: the words are the first 66 bits of the hash, eleven for each', () => {
  const told = ['svc-join-words-v1', node.publicKey, gateway.publicKey, node.nonce, gateway.nonce].join(':')
  const bits = [...createHash('sha256').update(told).digest()].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const words = Array.from({ length: 6 }, (_, at) => wordlist[Number.parseInt(bits.slice(11 * at, 11 * at + 11), 2)])
  expect(joinWords(node, gateway)).toBe(words.join(' '))
  expect(wordlist.length).toBe(2_048)
})

test('§39: every part of both sides changes the words, and no side passes for the other', () => {
  const words = joinWords(node, gateway)
  const others = [
    joinWords({ ...node, nonce: text(3) }, gateway),
    joinWords({ ...node, publicKey: gateway.publicKey }, gateway),
    joinWords(node, { ...gateway, nonce: text(3) }),
    joinWords(node, { ...gateway, publicKey: node.publicKey }),
    joinWords(gateway, node),
  ]
  expect(new Set([words, ...others]).size).toBe(6)
  expect(joinCommitment('node', node)).not.toBe(joinCommitment('gateway', node))
})

test('§39: a request is signed without its own signature', () => {
  expect(joinMessage({ a: 1, signature_ed25519: 'x' })).toBe(joinMessage({ a: 1 }))
  expect(joinMessage({ a: 1 })).not.toBe(joinMessage({ a: 2 }))
})

test('words are compared as people type them', () => {
  expect(plainWords(' Abandon-ability, ABLE\tabout  above.absent ')).toBe('abandon ability able about above absent')
  expect(plainWords('')).toBe('')
})
