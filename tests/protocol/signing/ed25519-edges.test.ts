import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Edge } from '../../../scripts/verdicts/edges.ts'
import { edgesText } from '../../../scripts/verdicts/write.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyEd25519Strictly } from '../../../src/protocol/signing/strict-ed25519.ts'

const file = join(import.meta.dir, '../../../docs/verify/ed25519.json')
const program = join(import.meta.dir, '../../../docs/verify/verify.py')
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly Edge[] }
const raw = (hex: string) => Uint8Array.fromHex(hex)
const verdicts = (of: (one: Edge) => boolean) => cases.map((one) => [one.name, of(one)] as const)
const ours = verdicts(({ valid }) => valid)
const plain = verdicts((one) => one.plain)

const run = (command: string[], env: Readonly<Record<string, string | undefined>> = process.env) =>
  Bun.spawnSync(command, { stdout: 'pipe', stderr: 'pipe', env: { ...env } })
const hasPython = Bun.which('python3') !== null && run(['python3', '-c', 'import cryptography']).exitCode === 0
const folder = mkdtempSync(join(tmpdir(), 'penstock-edges-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('§36: signatures at the edges of Ed25519 have one verdict', () => {
  test('the file is what the group gives, and what makes us differ from the libraries is the key alone', () => {
    expect(edgesText()).toBe(readFileSync(file, 'utf8'))
    const differ = cases.filter(({ valid, plain: other }) => valid !== other)
    expect(differ.length).toBeGreaterThan(10)
    for (const { name, valid } of differ)
      expect([name, valid]).toEqual([expect.stringMatching(/^the key (is of small order|in another encoding)/), false])
  })

  test('the gateway, the command and the agents', () => {
    expect(verdicts((one) => verifyEd25519(raw(one.public_key), raw(one.message), raw(one.signature)))).toEqual([
      ...ours,
    ])
  })

  test('the page in the browser', () => {
    expect(verdicts((one) => verifyEd25519Strictly(raw(one.public_key), raw(one.message), raw(one.signature)))).toEqual(
      [...ours],
    )
  })

  test.skipIf(!hasPython)('verify.py (needs python3 with cryptography)', () => {
    const ran = run(['python3', program, 'ed25519', file])
    expect([ran.exitCode, ran.stderr.toString()]).toEqual([0, ''])
  })

  test.skipIf(!hasPython)('Python’s cryptography, which looks at no key (needs python3 with cryptography)', () => {
    const ran = run(['python3', '-c', pythonProgram, file])
    expect(ran.stderr.toString()).toBe('')
    expect(JSON.parse(ran.stdout.toString())).toEqual(Object.fromEntries(plain))
  })

  test('the page and the native code agree on random signatures, and on each with one bit changed', () => {
    const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
    fc.assert(
      fc.property(bytes(32), fc.uint8Array({ maxLength: 200 }), fc.nat(96 * 8 - 1), (seed, message, bit) => {
        const key = signingKey(seed)
        const all = Buffer.concat([
          Buffer.from(key.publicKey, 'base64url'),
          Buffer.from(key.sign(message), 'base64url'),
        ])
        expect(verifyEd25519Strictly(all.subarray(0, 32), message, all.subarray(32))).toBe(true)
        all[bit >> 3] = (all[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        const [changed, signature] = [new Uint8Array(all.subarray(0, 32)), new Uint8Array(all.subarray(32))]
        expect(verifyEd25519Strictly(changed, message, signature)).toBe(verifyEd25519(changed, message, signature))
      }),
      { numRuns: 60 },
    )
  })

  test('keys and signatures of other lengths are none', () => {
    const [one] = cases
    if (one === undefined) throw new Error('there is no case')
    const [key, message, signature] = [raw(one.public_key), raw(one.message), raw(one.signature)]
    for (const verify of [verifyEd25519, verifyEd25519Strictly]) {
      expect(verify(key, message, signature)).toBe(true)
      expect(verify(key.subarray(1), message, signature)).toBe(false)
      expect(verify(key, message, signature.subarray(1))).toBe(false)
      expect(verify(key, message, new Uint8Array([...signature, 0]))).toBe(false)
    }
  })
})

const pythonProgram = `
import json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def holds(case):
    key, message, signature = (bytes.fromhex(case[name]) for name in ("public_key", "message", "signature"))
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False

with open(sys.argv[1]) as file:
    print(json.dumps({case["name"]: holds(case) for case in json.load(file)["cases"]}))
`
