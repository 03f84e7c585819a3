import { beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { amdRoots } from '../../../src/client/attestation/amd-roots.ts'
import { readCertificate } from '../../../src/client/attestation/certificates.ts'
import { judgeEvidence } from '../../../src/client/attestation/judge.ts'
import { type MeasurementPolicy, parseMeasurementPolicy } from '../../../src/client/attestation/measurement-policy.ts'
import type { Roots } from '../../../src/client/attestation/roots.ts'
import { type Attestation, attestationObject, reportDataOf } from '../../../src/protocol/attestation/evidence.ts'
import { keyConfigOf } from '../../../src/protocol/sealed/key-config.ts'
import { encodeBase64, encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { identityFingerprint } from '../../../src/protocol/signing/identity-fingerprint.ts'
import { dayMs } from '../../../src/time.ts'
import { type AmdMaker, hostTable, makeAmd, type SnpWish, snpMeasurement } from '../../support/confidential/amd.ts'
import {
  type CollateralWish,
  type IntelMaker,
  makeIntel,
  samples,
  type TdxWish,
  tdxMeasurement,
} from '../../support/confidential/intel.ts'

const nowMs = Date.parse('2026-11-20T12:00:00.000Z')
const identity = new Uint8Array(32).fill(1)
const keyConfig = keyConfigOf(new Uint8Array(32).fill(2))
const nonce = new Uint8Array(32).fill(3)
const reportData = reportDataOf(identity, keyConfig, nonce)
const expected = { fingerprint: identityFingerprint(encodeBase64Url(identity)), keyConfig, nonce }

const policy = parseMeasurementPolicy(
  JSON.stringify({
    tdx: [{ name: 'image 7', mr_td: tdxMeasurement.toHex() }],
    snp: [{ name: 'image 8', measurement: snpMeasurement.toHex() }],
    snp_tcb_least: { bootloader: 4, tee: 0, snp: 22, microcode: 115 },
  }),
)

let intel: IntelMaker
let amd: AmdMaker
let roots: Roots
beforeAll(async () => {
  ;[intel, amd] = await Promise.all([makeIntel(nowMs), makeAmd(nowMs)])
  roots = { intel: intel.root, amd: [amd.root] }
})

function evidence(provider: string, report: Uint8Array, more: Partial<Attestation>): Attestation {
  return {
    object: attestationObject,
    nonce: nonce.toHex(),
    identity_public_key_ed25519: encodeBase64Url(identity),
    key_config: encodeBase64Url(keyConfig),
    provider,
    report: encodeBase64Url(report),
    certificates: null,
    collateral: null,
    gpu: null,
    ...more,
  }
}

interface Judging {
  readonly about?: Partial<typeof expected>
  readonly policy?: MeasurementPolicy
  readonly atMs?: number
  readonly roots?: Roots
  readonly checkGpu?: (evidence: Uint8Array, nonce: Uint8Array) => Promise<boolean>
}

/** What does not hold, by name; empty: the machine is accepted. */
async function wrong(given: unknown, { about, atMs = nowMs, ...more }: Judging = {}): Promise<readonly string[]> {
  const options = { policy, roots, now: () => atMs, ...more }
  const { valid, checks } = await judgeEvidence(given, { ...expected, ...about }, options)
  const failed = checks.filter(({ ok }) => ok === false).map(({ name, detail }) => `${name}: ${detail}`)
  expect(valid).toBe(failed.length === 0)
  return failed
}

async function tdx(wish: Partial<TdxWish> = {}, collateral: CollateralWish = {}): Promise<Attestation> {
  const quote = await intel.quote({ reportData, ...wish })
  return evidence('tdx_guest', quote, { collateral: { tdx: await intel.collateral(collateral) } })
}

async function snp(wish: Partial<SnpWish> = {}, revoked = false): Promise<Attestation> {
  const report = amd.report({ reportData, ...wish })
  const crl = encodeBase64(await amd.list(revoked))
  return evidence('sev_guest', report, {
    certificates: encodeBase64Url(hostTable(amd.vcek)),
    collateral: { snp: { crl } },
  })
}

describe('§38: the verdict on a TDX quote', () => {
  test('accepted: signed, allowed, fresh, and about this key', async () => {
    expect(await wrong(await tdx())).toEqual([])
  })

  test('expired: the collateral is of an earlier month', async () => {
    const failed = await wrong(await tdx(), { atMs: nowMs + 40 * dayMs })
    expect(failed).toEqual(['report: TCBInfo expired', 'chain: the list of revoked certificates is expired'])
  })

  test('debug: the host may read the machine', async () => {
    const failed = await wrong(await tdx({ debug: true }))
    expect(failed).toEqual(['report: Debug mode is enabled', 'debug: the host may read this guest’s memory'])
  })

  test('wrong measurement', async () => {
    const [failed, ...rest] = await wrong(await tdx({ mrTd: new Uint8Array(48).fill(9) }))
    expect([failed, rest]).toEqual([`measurement: ${'09'.repeat(48)} is not allowed`, []])
  })

  test('wrong key binding: another key, another identity, another nonce', async () => {
    const other = keyConfigOf(new Uint8Array(32).fill(7))
    const unbound = 'binding: something else was signed'
    expect(await wrong({ ...(await tdx()), key_config: encodeBase64Url(other) })).toEqual([
      'sealing key: it is about another key',
      unbound,
    ])
    // A gateway that claims the key in the evidence for another one: it is about the wrong one.
    expect(await wrong(await tdx(), { about: { keyConfig: other } })).toEqual(['sealing key: it is about another key'])
    const stranger = encodeBase64Url(new Uint8Array(32).fill(8))
    const failed = await wrong({ ...(await tdx()), identity_public_key_ed25519: stranger })
    expect(failed.map((one) => one.split(':')[0])).toEqual(['identity', 'binding'])
    expect(await wrong(await tdx(), { about: { nonce: new Uint8Array(32) } })).toEqual([
      'nonce: it was made for another question',
    ])
    expect(await wrong(await tdx({ reportData: new Uint8Array(64) }))).toEqual([unbound])
  })

  test('revoked: the processor’s key, or the authority above it', async () => {
    expect(await wrong(await tdx({}, { revoked: 'key' }))).toEqual(['report: Certificate is revoked'])
    expect(await wrong(await tdx({}, { revoked: 'authority' }))).toEqual([
      'report: Certificate is revoked',
      'chain: Intel has revoked the authority of this processor’s key',
    ])
    const [status] = await wrong(await tdx({}, { status: 'Revoked' }))
    expect(status).toStartWith('report: TCB status is invalid')
  })

  test('out of date: unless the policy allows it', async () => {
    const given = await tdx({}, { status: 'OutOfDate' })
    expect(await wrong(given)).toEqual(['firmware: OutOfDate; the policy asks for UpToDate'])
    expect(await wrong(given, { policy: { ...policy, tdxStatuses: ['UpToDate', 'OutOfDate'] } })).toEqual([])
  })

  test('lists of revoked certificates that Intel has not signed, that are old, or that cannot be read', async () => {
    expect(await wrong(await tdx({}, { lists: 'forged' }))).toEqual([
      'chain: the list of revoked certificates is not signed by its issuer',
    ])
    expect(await wrong(await tdx({}, { lists: 'old' }))).toEqual(['chain: the list of revoked certificates is expired'])
    const given = await tdx()
    const { tdx: collateral } = given.collateral as { readonly tdx: object }
    const unread = { ...given, collateral: { tdx: { ...collateral, pck_crl: '00' } } }
    expect(await wrong(unread)).toEqual(['chain: a list of revoked certificates is missing'])
  })

  test('collateral that a key of Intel’s has signed which is for something else', async () => {
    expect(await wrong(await tdx({}, { signedBy: 'processor' }))).toEqual([
      'chain: the collateral is signed by another key of Intel’s than the one for it',
    ])
  })

  test('another TDX module than Intel’s, no collateral, a changed byte, another maker', async () => {
    expect(await wrong(await tdx({ mrSignerSeam: new Uint8Array(48).fill(1) }))).toEqual([
      'module: the TDX module is not one that Intel has signed',
    ])
    const given = await tdx()
    const missing = 'report: the node has sent no collateral of Intel’s, or not all of it'
    expect(await wrong({ ...given, collateral: null })).toEqual([missing])
    const quote = await intel.quote({ reportData })
    quote[200] = (quote[200] ?? 0) ^ 1
    const changed = await wrong({ ...given, report: encodeBase64Url(quote) })
    expect(changed.map((one) => one.split(':')[0])).toEqual(['report', 'measurement'])
    // To Intel's own root this maker is a stranger.
    const strange = await wrong(given, { roots: {} })
    expect(strange.map((one) => one.split(':')[0])).toEqual(['report', 'chain'])
  })
})

describe('§38: the verdict on an SEV-SNP report', () => {
  test('accepted: with the host’s certificate, or with the one that the owner has fetched', async () => {
    const given = await snp()
    expect(await wrong(given)).toEqual([])
    const { snp: collateral } = given.collateral as { readonly snp: object }
    const fetched = {
      ...given,
      certificates: null,
      collateral: { snp: { ...collateral, vcek: encodeBase64(amd.vcek) } },
    }
    expect(await wrong(fetched)).toEqual([])
  })

  test('expired: certificate and list', async () => {
    const failed = await wrong(await snp(), { atMs: nowMs + 4_000 * dayMs })
    expect(failed.map((one) => one.split(':')[0])).toEqual(['chain', 'revocation'])
    expect(await wrong(await snp(), { atMs: nowMs + 40 * dayMs })).toEqual([
      'revocation: the list of revoked certificates is expired',
    ])
  })

  test('debug, wrong measurement, another level, old firmware', async () => {
    expect(await wrong(await snp({ debug: true }))).toEqual(['debug: the host may read this guest’s memory'])
    expect(await wrong(await snp({ measurement: new Uint8Array(48) }))).toEqual([
      `measurement: ${'00'.repeat(48)} is not allowed`,
    ])
    expect(await wrong(await snp({ vmpl: 1 }))).toEqual(['level: VMPL 1'])
    const newer = { bootloader: 4, tee: 0, snp: 23, microcode: 115 }
    expect(await wrong(await snp(), { policy: { ...policy, snpLeast: newer } })).toEqual([
      'firmware: bootloader 4, tee 0, snp 22, microcode 115; the policy asks for snp 23',
    ])
  })

  test('wrong key binding', async () => {
    expect(await wrong(await snp({ reportData: new Uint8Array(64) }))).toEqual(['binding: something else was signed'])
  })

  test('revoked: the key that has signed the processor’s; no list, unless the policy needs none', async () => {
    expect(await wrong(await snp({}, true))).toEqual(['revocation: AMD has revoked its signing key for Test'])
    const without = { ...(await snp()), collateral: null }
    expect(await wrong(without)).toEqual(['revocation: the node has sent no list of AMD’s'])
    expect(await wrong(without, { policy: { ...policy, snpListNeeded: false } })).toEqual([])
  })

  test('a report of other firmware or of another processor than the certificate’s, a changed byte, another maker', async () => {
    const other = 'report: the certificate is of another processor or of other firmware'
    expect(await wrong(await snp({ microcode: 200 }))).toEqual([other])
    expect(await wrong(await snp({ chipId: new Uint8Array(64).fill(4) }))).toEqual([other])
    const report = amd.report({ reportData })
    report[0xc1] = 7
    expect(await wrong({ ...(await snp()), report: encodeBase64Url(report) })).toEqual([
      'report: the signature does not hold',
    ])
    const strange = await wrong(await snp(), { roots: {} })
    expect(strange.map((one) => one.split(':')[0])).toEqual(['chain', 'revocation'])
  })
})

describe('§38: published samples, as of their own time', () => {
  const read = (name: string) => new Uint8Array(readFileSync(join(samples, name)))
  const collateral = (name: string) => ({ tdx: JSON.parse(readFileSync(join(samples, name), 'utf8')) as unknown })
  // Their report data was made for somebody else's key: each is a case of a wrong binding, and of nothing else.
  const unbound = 'binding: something else was signed'
  const inTime = { roots: {}, atMs: Date.parse('2025-06-27T03:06:40.000Z') }

  test('a TDX quote with Intel’s collateral: only the binding is wrong; expired a month later; no other image', async () => {
    const given = evidence('tdx_guest', read('tdx-quote.bin'), { collateral: collateral('tdx-collateral.json') })
    expect(await wrong(given, inTime)).toEqual([unbound])
    expect(await wrong(given, { roots: {} })).toContain('report: TCBInfo expired')
    const others = { ...policy, tdx: [{ name: '', fields: { mr_td: '00'.repeat(48) } }] }
    expect((await wrong(given, { ...inTime, policy: others })).map((one) => one.split(':')[0])).toEqual([
      'binding',
      'measurement',
    ])
  })

  test('a TDX quote of a processor whose firmware is older than all that Intel still lists', async () => {
    const given = evidence('tdx_guest', read('tdx-outdated-quote.bin'), {
      collateral: collateral('tdx-outdated-collateral.json'),
    })
    const failed = await wrong(given, { roots: {}, atMs: Date.parse('2026-03-01T00:00:00.000Z') })
    expect(failed.slice(0, 2)).toEqual([unbound, 'report: No matching TCB level found'])
  })

  test('an SEV-SNP report of a Milan, by AMD’s own roots', async () => {
    const report = read('snp-report.bin')
    const given = evidence('sev_guest', report, { certificates: encodeBase64Url(hostTable(read('snp-vcek.der'))) })
    const milan: MeasurementPolicy = {
      ...policy,
      snp: [{ name: 'sample', fields: { measurement: report.slice(0x90, 0xc0).toHex() } }],
      snpLeast: { bootloader: 2, tee: 0, snp: 5, microcode: 68 },
      snpListNeeded: false,
    }
    // It was made on a machine for tests, whose host may debug it.
    const debug = 'debug: the host may read this guest’s memory'
    expect(await wrong(given, { roots: {}, policy: milan })).toEqual([unbound, debug])
    expect(await wrong(given, { roots: {}, policy: { ...milan, snp: policy.snp } })).toHaveLength(3)
    // The certificate ends in 2029.
    const late = await wrong(given, { roots: {}, policy: milan, atMs: Date.parse('2030-01-01T00:00:00.000Z') })
    expect(late.map((one) => one.split(':')[0])).toEqual(['binding', 'chain', 'debug'])
  })

  test('the pinned roots are AMD’s: their fingerprints', async () => {
    const prints = amdRoots.map(({ ark, ask }) =>
      [ark, ask].map((pem) => {
        const certificate = readCertificate(pem)
        return new Bun.CryptoHasher('sha256').update(new Uint8Array(certificate?.rawData ?? [])).digest('hex')
      }),
    )
    expect(prints).toEqual([
      [
        '69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd',
        '67d303bd3905fd38db8b20e0793699870e7fa612eaad5dec358293fd8c0bac1b',
      ],
      [
        '4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1',
        '5464738c1546aed5f2cecf1dc98c5c960a92e8913238a61711bc90ec6e828521',
      ],
      [
        '1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a',
        '5b77ef5fe7a7a004fd9032668fba9d0fda22f88c4442069a479636a6ae3b3185',
      ],
    ])
  })
})

describe('§38: what else a machine may show, and evidence that is none', () => {
  test('GPUs: ignored, needed, accepted and refused by the reader’s program, for a nonce of this key', async () => {
    const given = { ...(await snp()), gpu: encodeBase64Url(new TextEncoder().encode('signed by GPUs')) }
    const needed = { policy: { ...policy, gpuNeeded: true } }
    expect(await wrong(given)).toEqual([])
    expect(await wrong(await snp(), needed)).toEqual(['gpu: the node has sent nothing about its GPUs'])
    expect(await wrong(given, needed)).toEqual(['gpu: nothing here can check it: name a program with --gpu-check'])
    let seen = ''
    const checkGpu = (text: Uint8Array, forNonce: Uint8Array) => {
      seen = `${new TextDecoder().decode(text)} ${forNonce.toHex()}`
      return Promise.resolve(true)
    }
    expect(await wrong(given, { ...needed, checkGpu })).toEqual([])
    expect(seen).toBe(`signed by GPUs ${reportData.slice(0, 32).toHex()}`)
    const refuses = () => Promise.resolve(false)
    expect(await wrong(given, { checkGpu: refuses })).toEqual(['gpu: your program refuses it'])
  })

  test('no evidence, of another form, of another kind of machine, cut anywhere', async () => {
    const form = ['form: this is no evidence of a computer']
    for (const none of [undefined, null, 3, 'x', [], {}, { ...(await snp()), nonce: 'AB' }]) {
      expect(await wrong(none)).toEqual(form)
    }
    expect(await wrong({ ...(await snp()), report: 'not base64url!' })).toEqual(form)
    const strange = await wrong({ ...(await snp()), provider: '__proto__' })
    expect(strange).toContain('report: a kind of computer that is not known here')
    const quote = await intel.quote({ reportData })
    const whole = await tdx()
    for (let length = 0; length < quote.length; length += 173) {
      const cut = { ...whole, report: encodeBase64Url(quote.slice(0, length)) }
      expect((await wrong(cut)).length).toBeGreaterThan(0)
    }
    const table = hostTable(amd.vcek)
    table.fill(0xff, 16, 24)
    const lost = await wrong({ ...(await snp()), certificates: encodeBase64Url(table) })
    expect(lost[0]).toBe('report: neither host nor node gives the certificate of the processor’s key')
  })

  test('a policy that cannot be used says which member is wrong', () => {
    const fault = (value: unknown) => {
      try {
        parseMeasurementPolicy(typeof value === 'string' ? value : JSON.stringify(value))
      } catch (error) {
        return (error as Error).message
      }
      return 'none'
    }
    const image = { measurement: 'ab'.repeat(48) }
    const least = { bootloader: 1, tee: 0, snp: 1, microcode: 1 }
    expect(fault('{')).toBe('the file must contain a JSON object')
    expect(fault({})).toBe('it needs at least one image in tdx or snp')
    expect(fault({ snp: [image] })).toStartWith('snp_tcb_least is missing')
    expect(fault({ snp: [image], snp_tcb_least: { ...least, snp: 256 } })).toStartWith('snp_tcb_least.snp')
    expect(fault({ snp: [{ host_data: 'ab'.repeat(32) }], snp_tcb_least: least })).toStartWith(
      'snp[0] needs measurement',
    )
    expect(fault({ tdx: [{ mr_td: 'AB'.repeat(48) }] })).toStartWith('tdx[0].mr_td must be 96')
    expect(fault({ tdx: [{ mr_td: 'ab'.repeat(48), rtmr9: 'ab' }] })).toStartWith('tdx[0] has no member rtmr9')
    expect(fault({ tdx: [{ mr_td: 'ab'.repeat(48) }], debug: true })).toStartWith('the file has no member debug')
    expect(fault({ tdx: [{ mr_td: 'ab'.repeat(48) }], tdx_tcb: ['Revoked'] })).toStartWith('tdx_tcb must be')
    expect(fault({ tdx: [{ mr_td: 'ab'.repeat(48) }], fresh_s: 0 })).toStartWith('fresh_s must be')
    expect(fault({ snp: [image], snp_tcb_least: least })).toBe('none')
    expect([policy.freshSeconds, policy.tdxStatuses, policy.snpListNeeded]).toEqual([3_600, ['UpToDate'], true])
  })
})
