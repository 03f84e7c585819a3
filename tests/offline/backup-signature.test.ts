import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { firstOrigin, signersOf } from '../../src/actors/log/log-names.ts'
import { gzipMember } from '../../src/offline/backup-seal.ts'
import { noteKeyText } from '../../src/protocol/log/note.ts'
import { type BackedUp, backedUpGateway, restoredFrom, richer } from '../support/run/backed-up.ts'

let backedUp: BackedUp
let bench: BackedUp['bench']
let gateway: BackedUp['gateway']
let dataDir: BackedUp['dataDir']
let file: BackedUp['file']
let key: BackedUp['key']
let seed: BackedUp['seed']
beforeAll(async () => {
  backedUp = await backedUpGateway()
  ;({ bench, gateway, dataDir, file, key, seed } = backedUp)
})
afterAll(() => backedUp.close())

const restored = (args: readonly string[], env: Readonly<Record<string, string>> = {}) => restoredFrom(bench, args, env)

const otherSeed = '09'.repeat(32)
function noteKeyOf(seed: string): string {
  const keys = [seededKey(seed)]
  return signersOf(firstOrigin(keys), keys)
    .map(({ key }) => noteKeyText(key))
    .join()
}
const otherKey = noteKeyOf(otherSeed)

describe('§24: a backup is signed by the log key of its gateway', () => {
  test('the key that the command prints is that of the public log', async () => {
    const told = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: readonly string[] }
    expect(told.keys).toEqual([key])
    expect(bench.keyOf(file)).toBe(key)
  })

  test('the kept key, a file with it, the answer of the gateway in a file, and the gateway that runs are believed', async () => {
    const [kept, answer] = [bench.path('log.key'), bench.path('keys.json')]
    writeFileSync(kept, `${otherKey}\n${key}\n`)
    writeFileSync(answer, await (await fetch(`${gateway.url}/v1/public/log/keys`)).text())
    for (const given of [key, kept, `@${kept}`, answer, gateway.url]) {
      const { code, out } = await restored([file, '--log-key', given, '--json'])
      expect([given, code, JSON.parse(out)]).toMatchObject([given, 0, { verified: true, signed_by: key }])
    }
    const { out } = await restored([file, '--log-key', key, '--secrets-to', bench.path('x.env'), '--overwrite'])
    expect(out).toContain(`Signature  holds: ${key}`)
    expect(out).toContain('Books      balance')
  })

  test('SVC_LOG_KEY of the gateway that restores is believed, as is the one of the data folder that is replaced', async () => {
    expect(await restored([file, '--json'], { SVC_LOG_KEY: seed })).toMatchObject({ code: 0 })
    const folder = bench.path('used')
    const args = [file, '--log-key', key]
    expect((await bench.cli.run(['restore', ...args], { env: { SVC_DATA_DIR: folder } })).code).toBe(0)
    const again = await bench.cli.run(['restore', file, '--overwrite', '--json'], { env: { SVC_DATA_DIR: folder } })
    expect([again.code, JSON.parse(again.out)]).toMatchObject([0, { verified: true }])
  })

  test('without a key that is known from elsewhere it is refused, and --unverified says that nothing is proven', async () => {
    const secrets = bench.path('never.env')
    const refused = await restored([file, '--secrets-to', secrets])
    expect(refused).toMatchObject({ code: 1, out: '', rows: [] })
    expect(refused.err).toContain(key)
    expect(refused.err).toContain('no key is known here to compare that with')
    expect(refused.err).toContain('--log-key')
    expect(existsSync(secrets)).toBe(false)
    const taken = await restored([file, '--unverified'])
    expect(taken.code).toBe(0)
    expect(taken.out).toContain('Signature  NOT VERIFIED')
    expect(taken.err).toContain('only against the key in the file')
    expect(taken.err).toContain('proves nothing about who wrote it')
    const told = JSON.parse((await restored([file, '--unverified', '--json'])).out)
    expect(told).toMatchObject({ verified: false, signed_by: key, books: { sound: true } })
  })

  test('each key of a rotation signs, so that the old one and the new one are believed', async () => {
    const both = bench.path('rotated.sql.gz')
    copyFileSync(file, both)
    bench.rewrite(both, (text) => text, [otherSeed, seed])
    for (const [given, signer] of [
      [key, seed],
      [otherKey, otherSeed],
    ] as const) {
      const { code, out } = await restored([both, '--log-key', given, '--json'])
      expect([code, JSON.parse(out).verified]).toEqual([0, true])
      expect(JSON.parse(out).signed_by.split('+').at(-1)).toBe(noteKeyOf(signer).split('+').at(-1))
    }
  })

  test('another key than the one that is known is refused', async () => {
    for (const [args, env] of [
      [[file, '--log-key', otherKey], {}],
      [[file], { SVC_LOG_KEY: otherSeed }],
    ] as const) {
      const refused = await restored(args, env)
      expect(refused).toMatchObject({ code: 1, rows: [] })
      expect(refused.err).toContain('is not the log key that is known here')
    }
    for (const args of [
      ['--log-key', 'no-key'],
      ['--log-key', key, '--unverified'],
    ]) {
      expect(await restored([file, ...args])).toMatchObject({ code: 2, rows: [] })
    }
  })
})

/** What somebody without the log key can do with the file. */
const forgeries: Readonly<Record<string, readonly [(at: string) => void, string]>> = {
  'and keeps the signature of the true one': [
    (at) => {
      const seal = readFileSync(at).subarray(sealAt(at))
      bench.rewrite(at, richer, [])
      writeFileSync(at, Buffer.concat([readFileSync(at).subarray(0, sealAt(at)), seal]))
    },
    'damaged',
  ],
  'and takes the signature away': [(at) => bench.rewrite(at, richer, []), 'carries no signature'],
  'and signs it with a key of their own': [
    (at) => bench.rewrite(at, richer, [otherSeed]),
    'is not the log key that is known here',
  ],
  'and writes it in the old format': [
    (at) => writeFileSync(at, Bun.gzipSync(Buffer.from(plainOf(at, richer).replaceAll('backup-v2', 'backup-v1')))),
    'carries no signature',
  ],
}
const plainOf = (at: string, change: (text: string) => string) =>
  change(`-- penstock-backup-v2 ${JSON.stringify(bench.headerOf(at))}\n${bench.textOf(at)}`)

/** Where the last member of the gzip file begins. */
const sealAt = (at: string) => readFileSync(at).lastIndexOf(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]))

test.each(Object.keys(forgeries))('§24: who rewrites a balance %s is refused, and nothing is written', async (how) => {
  const [forge, says] = forgeries[how] ?? [() => {}, '']
  const bad = bench.path('forged.sql.gz')
  copyFileSync(file, bad)
  forge(bad)
  const refused = await restored([bad, '--log-key', key])
  expect(refused).toMatchObject({ code: 1, out: '', rows: [] })
  expect(refused.err).toContain(says)
})

test('§24: a signature that does not hold is refused by everybody, with --unverified, too', async () => {
  const bad = bench.path('other-hash.sql.gz')
  copyFileSync(file, bad)
  // The seal of a backup of the same gateway around other bytes, with the names of both keys.
  bench.rewrite(bad, richer, [otherSeed])
  const bytes = readFileSync(bad)
  const text = bytes.subarray(sealAt(bad) + 15, -8).toString()
  const named = text.replace(/^-- key \S+$/m, `-- key ${key}`)
  writeFileSync(bad, Buffer.concat([bytes.subarray(0, sealAt(bad)), gzipMember(Buffer.from(named))]))
  for (const args of [['--log-key', key], ['--unverified']]) {
    const refused = await restored([bad, ...args])
    expect(refused).toMatchObject({ code: 1, rows: [] })
    expect(refused.err).toContain('signature in the backup does not hold')
  }
})

describe('§24: a backup without the log key', () => {
  test('cannot be signed anew by who reads it, and needs the key from elsewhere', async () => {
    const bare = bench.path('bare.sql.gz')
    const made = await bench.cli.run(['backup', bare, '--without-log-key'], { env: { SVC_DATA_DIR: dataDir } })
    expect([made.code, made.err]).toEqual([0, ''])
    expect(made.out).toContain(`Signed by ${key}`)
    expect(bench.headerOf(bare).secrets).not.toHaveProperty('SVC_LOG_KEY')
    expect(bench.textOf(bare)).not.toContain(seed)
    const folder = bench.path('keyless')
    const refused = await bench.cli.run(['restore', bare, '--log-key', key], { env: { SVC_DATA_DIR: folder } })
    expect(refused.code).toBe(1)
    expect(refused.err).toContain('made without the log key')
    expect(existsSync(folder)).toBe(false)
    const foreign = { SVC_LOG_KEY: otherSeed }
    expect(await restored([bare, '--log-key', key], foreign)).toMatchObject({ code: 1, rows: [] })
    const env = { SVC_DATA_DIR: folder, SVC_LOG_KEY: seed }
    expect(await bench.cli.run(['restore', bare], { env })).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(readFileSync(join(folder, 'secrets.json'), 'utf8')).log_key).toBe(seed)
  })

  test('is not made where the key could be computed from the rest, or is not known', async () => {
    const folder = bench.path('derived')
    expect((await bench.cli.run(['restore', file, '--log-key', key], { env: { SVC_DATA_DIR: folder } })).code).toBe(0)
    const kept = JSON.parse(readFileSync(join(folder, 'secrets.json'), 'utf8')) as Record<string, string>
    // As a start does with a folder from before there was a log.
    const derived = createHmac('sha256', kept.secrets_key ?? '')
      .update('log_key')
      .digest('base64url')
    writeFileSync(join(folder, 'secrets.json'), JSON.stringify({ ...kept, log_key: derived }))
    const args = ['backup', bench.path('no.sql.gz'), '--without-log-key']
    const refused = await bench.cli.run(args, { env: { SVC_DATA_DIR: folder } })
    expect(refused.code).toBe(1)
    expect(refused.err).toContain('derived the log key')
    const { log_key: _, ...older } = kept
    writeFileSync(join(folder, 'secrets.json'), JSON.stringify(older))
    expect((await bench.cli.run(args, { env: { SVC_DATA_DIR: folder } })).err).toContain(
      'SVC_LOG_KEY is not known here',
    )
    expect(existsSync(bench.path('no.sql.gz'))).toBe(false)
    // Without the option it is written, sealed but not signed, and says so.
    const bare = bench.path('unsigned.sql.gz')
    const made = await bench.cli.run(['backup', bare], { env: { SVC_DATA_DIR: folder } })
    expect(made.err).toContain('The backup is not signed')
    expect((await restored([bare, '--log-key', key])).err).toContain('carries no signature')
  })
})

test('§24: the environment file of a header that nobody signed holds settings and nothing else', async () => {
  const bad = bench.path('hostile.sql.gz')
  for (const secrets of [{ 'SVC_X=1\nPATH': 'x' }, { SVC_X: 'a\nPATH=/tmp' }, { PATH: '/tmp' }, { SVC_X: 1 }]) {
    copyFileSync(file, bad)
    bench.rewrite(bad, (text) => text.replace(/"secrets":\{[^}]*\}/, () => `"secrets":${JSON.stringify(secrets)}`), [])
    const out = bench.path('hostile.env')
    const refused = await restored([bad, '--unverified', '--secrets-to', out])
    expect(refused).toMatchObject({ code: 1, rows: [] })
    expect(refused.err).toContain('damaged')
    expect(existsSync(out)).toBe(false)
  }
})
