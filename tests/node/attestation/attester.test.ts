import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Problem } from '../../../src/errors.ts'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { Attester, type AttestOptions, checkAttest, turnsMax } from '../../../src/node/attestation/attester.ts'
import { loadSealedKeys } from '../../../src/node/sealed/sealed-keys.ts'
import { type Attestation, gpuNonceOf, reportDataOf } from '../../../src/protocol/attestation/evidence.ts'
import { decodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { fingerprint, signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { entryOf, startTsmFolder, type TsmFolder, type TsmKernel } from '../../support/confidential/tsm-folder.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const identity = signingKey(new Uint8Array(32).fill(5))
const entry = entryOf(fingerprint(identity.publicKey) ?? '')
const nonce = 'ab'.repeat(32)
const signs: TsmKernel = async (data) => ({ report: Uint8Array.from([...data, 1]), certificates: new Uint8Array([7]) })

let dir: string
let tsm: TsmFolder | null
let logged: string
/** Of the attester that was made last; `waitMs` may be changed between two requests. */
let options: { folder: string; waitMs?: number }
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'penstock-attest-'))
  tsm = null
  logged = ''
})
afterEach(async () => {
  await tsm?.stop()
  rmSync(dir, { recursive: true })
})

async function attester(kernel: TsmKernel, more: Partial<AttestOptions> = {}): Promise<Attester> {
  tsm = startTsmFolder('tdx_guest', kernel)
  tsm.serve(entry)
  const sealedKeys = await loadSealedKeys({ folder: openPrivateFolder(join(dir, 'keys')), identity })
  const log = createLog('info', (text) => {
    logged += text
  })
  options = { folder: tsm.path, ...more }
  return new Attester({ options, identity: identity.publicKey, sealedKeys, log })
}

const never = new AbortController().signal
const codeOf = (failed: Promise<unknown>) =>
  failed.then(
    () => 'none',
    (error: unknown) => (error instanceof Problem ? error.code : String(error)),
  )

function program(name: string, lines: string): string {
  const file = join(dir, name)
  writeFileSync(file, `#!/bin/sh\n${lines}\n`)
  chmodSync(file, 0o755)
  return file
}

const signedFor = ({ identity_public_key_ed25519, key_config }: Attestation, forNonce: string) =>
  reportDataOf(
    decodeBase64Url(identity_public_key_ed25519) ?? new Uint8Array(),
    decodeBase64Url(key_config) ?? new Uint8Array(),
    Uint8Array.fromHex(forNonce),
  )

describe('§38: what an agent shows of its machine', () => {
  test('the kernel signs identity, key and nonce, one request at a time, again and again in the same entry', async () => {
    const shows = await attester(signs)
    const nonces = ['01', '02', '03'].map((text) => text.repeat(32))
    const all = await Promise.all(nonces.map((each) => shows.attest(each, never)))
    for (const [at, shown] of all.entries()) {
      const data = signedFor(shown, nonces[at] ?? '')
      expect(shown).toMatchObject({ object: 'svc.attestation', nonce: nonces[at] ?? '', provider: 'tdx_guest' })
      expect(decodeBase64Url(shown.report)).toEqual(Uint8Array.from([...data, 1]))
      expect([shown.certificates, shown.collateral, shown.gpu]).toEqual(['Bw', null, null])
    }
    expect(tsm?.asked).toHaveLength(3)
  })

  test('with the owner’s collateral, read anew each time, and the words of the owner’s program about GPUs', async () => {
    const collateral = join(dir, 'collateral.json')
    writeFileSync(collateral, '{"tdx":1}')
    const gpuCommand = program('gpus', 'printf "GPUs for %s" "$1"')
    const shows = await attester(signs, { collateral, gpuCommand })
    const first = await shows.attest(nonce, never)
    expect(first.collateral).toEqual({ tdx: 1 })
    const words = Buffer.from(first.gpu ?? '', 'base64url').toString()
    expect(words).toBe(`GPUs for ${gpuNonceOf(signedFor(first, nonce)).toHex()}`)
    writeFileSync(collateral, '{"tdx":2}')
    expect((await shows.attest(nonce, never)).collateral).toEqual({ tdx: 2 })
  })

  test.each([
    ['another program writes into the entry', (data: Uint8Array) => Promise.resolve({ report: data, writes: 2 }), {}],
    ['the report has no end', () => Promise.resolve({ report: new Uint8Array(200_000) }), {}],
  ] as const)('nothing where %s; the log tells no content', async (_, kernel, more) => {
    const shows = await attester(kernel, more)
    expect(await codeOf(shows.attest(nonce, never))).toBe('upstream_error')
    expect(logged).toContain('attestation_failed')
    expect(logged).not.toContain(nonce)
    // The next one is asked for all the same.
    expect(await codeOf(shows.attest(nonce, never))).toBe('upstream_error')
  })

  test('nothing where collateral or GPUs fail: no half of it is shown', async () => {
    const collateral = join(dir, 'collateral.json')
    writeFileSync(collateral, '{"tdx":')
    const shows = await attester(signs, { collateral })
    expect(await codeOf(shows.attest(nonce, never))).toBe('upstream_error')
    writeFileSync(collateral, `"${'x'.repeat(200_000)}"`)
    expect(await codeOf(shows.attest(nonce, never))).toBe('upstream_error')
    rmSync(collateral)
    expect(await codeOf(shows.attest(nonce, never))).toBe('upstream_error')
    await tsm?.stop()
    const endless = program('endless', 'yes')
    expect(await codeOf((await attester(signs, { gpuCommand: endless })).attest(nonce, never))).toBe('upstream_error')
    await tsm?.stop()
    const fails = program('fails', 'echo something; exit 3')
    expect(await codeOf((await attester(signs, { gpuCommand: fails })).attest(nonce, never))).toBe('upstream_error')
  })

  test('a kernel that never answers holds up those behind it for their own time, and no more than eight of them', async () => {
    const hang = Promise.withResolvers<void>()
    const shows = await attester((data) => hang.promise.then(() => signs(data)), { waitMs: 200 })
    const waiting = Array.from({ length: turnsMax }, () => codeOf(shows.attest(nonce, never)))
    expect(await codeOf(shows.attest(nonce, never))).toBe('capacity_exhausted')
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['upstream_timeout']))
    // Their turns have not ended: no more of them gather behind the kernel.
    expect(await codeOf(shows.attest(nonce, never))).toBe('capacity_exhausted')
    hang.resolve()
    options.waitMs = 60_000
    // Those that nobody waits for any more are not made up for.
    await waitUntil('there is evidence again', async () => (await codeOf(shows.attest(nonce, never))) === 'none')
    expect(tsm?.asked).toHaveLength(2)
  })

  test('a client that leaves is not made up for', async () => {
    const hang = Promise.withResolvers<void>()
    const shows = await attester((data) => hang.promise.then(() => signs(data)))
    const first = shows.attest(nonce, never)
    const left = new AbortController()
    const second = codeOf(shows.attest('cd'.repeat(32), left.signal))
    left.abort()
    hang.resolve()
    expect((await first).nonce).toBe(nonce)
    expect(await second).toContain('AbortError')
    expect(tsm?.asked).toHaveLength(1)
  })

  test('what can be seen to be wrong at the start is said then', () => {
    const fault = (options: AttestOptions) => {
      try {
        checkAttest(options)
      } catch (error) {
        return (error as Error).message
      }
      return 'none'
    }
    expect(fault({ folder: join(dir, 'none') })).toStartWith(`--attest: ${dir}/none is not a folder`)
    expect(fault({ folder: dir, collateral: dir })).toStartWith('--attest-collateral')
    expect(fault({ folder: dir, gpuCommand: join(dir, 'none') })).toStartWith('--attest-gpu')
    expect(fault({ folder: dir })).toBe('none')
  })
})
