import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder, type PrivateFolder } from '../../../src/host/private-files.ts'
import { openReplays, replaysFile } from '../../../src/node/sealed/replays.ts'
import { loadSealedKeys, sealedKeysFile } from '../../../src/node/sealed/sealed-keys.ts'
import { sealBody } from '../../../src/protocol/sealed/hpke.ts'
import { publicKeyOf, sealedKeyMessage } from '../../../src/protocol/sealed/sealed-key.ts'
import { signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import type { SealedKey } from '../../../src/protocol/wire/nodes/sealed-key.ts'
import { dayMs } from '../../../src/time.ts'

const identity = signingKey(new Uint8Array(32).fill(7))
let dir: string
let folder: PrivateFolder
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'penstock-sealed-'))
  folder = openPrivateFolder(dir)
})
afterEach(() => rmSync(dir, { recursive: true }))

const sealedFor = (key: SealedKey | undefined) =>
  sealBody(key === undefined ? new Uint8Array() : (publicKeyOf(key) ?? new Uint8Array()), [Buffer.from('hello')])

describe('§38: the keys of an agent', () => {
  test('rotate after 90 days; the old one opens for 7 days more and is then deleted', async () => {
    let nowMs = Date.parse('2026-11-20T00:00:00.000Z')
    const keys = await loadSealedKeys({ folder, identity, now: () => nowMs })
    const [first] = keys.published()
    const { enc, frames } = await sealedFor(first)
    const opens = async () => (await keys.open(enc, frames)) !== null
    expect([first?.state, await opens()]).toEqual(['active', true])
    nowMs += 90 * dayMs
    expect(await opens()).toBe(true)
    expect(keys.published().map(({ state }) => state)).toEqual(['active', 'retiring'])
    expect(keys.published()[0]?.key_id).not.toBe(first?.key_id as string)
    nowMs += 7 * dayMs
    expect(await opens()).toBe(false)
    const stored = JSON.stringify(folder.read(sealedKeysFile))
    expect(stored).toContain('"secret_key":null')
  })

  test('stay the same across a restart, and are no transport keys', async () => {
    const [first] = (await loadSealedKeys({ folder, identity })).published()
    const [again] = (await loadSealedKeys({ folder, identity })).published()
    expect(again?.key_config).toBe(first?.key_config as string)
    expect(statSync(join(dir, sealedKeysFile)).mode & 0o777).toBe(0o600)
  })

  test('are signed by the identity over all that they say', async () => {
    const [key] = (await loadSealedKeys({ folder, identity })).published()
    if (key === undefined) throw new Error('no key')
    const holds = (given: SealedKey) =>
      verifyKey(identity.publicKey)?.verify(sealedKeyMessage(given), given.signature_ed25519) === true
    expect(holds(key)).toBe(true)
    expect(holds({ ...key, not_after: '2099-01-01T00:00:00.000Z' })).toBe(false)
    expect(publicKeyOf({ ...key, key_id: 'A'.repeat(22) })).toBeNull()
    expect(publicKeyOf({ ...key, key_config: `${key.key_config.slice(0, -1)}A` })).toBeNull()
  })

  test('a damaged file is said and not replaced', async () => {
    writeFileSync(join(dir, sealedKeysFile), '{"keys":3}')
    const failure = await loadSealedKeys({ folder, identity }).catch((error: unknown) => (error as Error).name)
    expect(failure).toBe('PrivateFileError')
  })
})

describe('§38: replays', () => {
  const enc = (value: number) => new Uint8Array(32).fill(value)

  test('an encapsulated key is used for 24 hours, by key, and across restarts', () => {
    let nowMs = 1_800_000_000_000
    const now = () => nowMs
    expect(openReplays({ folder, now }).use('a', enc(1))).toBe('fresh')
    const again = openReplays({ folder, now })
    expect([again.use('a', enc(1)), again.use('b', enc(1)), again.use('a', enc(2))]).toEqual(['used', 'fresh', 'fresh'])
    nowMs += dayMs - 1_000
    expect(again.use('a', enc(1))).toBe('used')
    nowMs += 2_000
    expect(again.use('a', enc(1))).toBe('fresh')
  })

  test('beyond the bound nothing new is taken, and nothing is forgotten', () => {
    const replays = openReplays({ folder, most: 2 })
    expect([1, 2, 3, 1].map((value) => replays.use('a', enc(value)))).toEqual(['fresh', 'fresh', 'full', 'used'])
  })

  test('a file that a crash left half written beside them takes no key out of use', () => {
    openReplays({ folder }).use('a', enc(1))
    appendFileSync(join(dir, `${replaysFile}.new`), Buffer.alloc(7))
    const again = openReplays({ folder })
    expect([again.use('a', enc(1)), again.use('a', enc(2))]).toEqual(['used', 'fresh'])
    expect(openReplays({ folder }).use('a', enc(2))).toBe('used')
  })

  test('a record that a crash cut off is passed over', () => {
    openReplays({ folder }).use('a', enc(1))
    appendFileSync(join(dir, replaysFile), Buffer.alloc(7))
    expect(openReplays({ folder }).use('a', enc(1))).toBe('used')
  })
})
