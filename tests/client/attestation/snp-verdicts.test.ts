import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { amdRoots } from '../../../src/client/attestation/amd-roots.ts'
import { readCertificate } from '../../../src/client/attestation/certificates.ts'
import type { MeasurementPolicy } from '../../../src/client/attestation/measurement-policy.ts'
import { encodeBase64, encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { dayMs } from '../../../src/time.ts'
import { hostTable, makeAmd } from '../../support/confidential/amd.ts'
import { samples } from '../../support/confidential/intel.ts'
import {
  evidence,
  type Machines,
  makeMachines,
  namesOf,
  nowMs,
  policy,
  reportData,
} from '../../support/confidential/judged.ts'

const wrong: Machines['wrong'] = (given, judging) => machines.wrong(given, judging)
const snp: Machines['snp'] = (wish, revoked) => machines.snp(wish, revoked)
const machines = await makeMachines()

describe('§38: the verdict on an SEV-SNP report', () => {
  test('accepted: with the host’s certificate, or with the one that the owner has fetched', async () => {
    const given = await snp()
    expect(await wrong(given)).toEqual([])
    const { snp: collateral } = given.collateral as { readonly snp: object }
    const fetched = {
      ...given,
      certificates: null,
      collateral: { snp: { ...collateral, vcek: encodeBase64(machines.amd.vcek) } },
    }
    expect(await wrong(fetched)).toEqual([])
  })

  test('expired: certificate and list', async () => {
    const failed = await wrong(await snp(), { atMs: nowMs + 4_000 * dayMs })
    expect(namesOf(failed)).toEqual(['chain', 'revocation'])
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
    const report = machines.amd.report({ reportData })
    report[0xc1] = 7
    expect(await wrong({ ...(await snp()), report: encodeBase64Url(report) })).toEqual([
      'report: the signature does not hold',
    ])
    const strange = await wrong(await snp(), { roots: {} })
    expect(namesOf(strange)).toEqual(['chain', 'revocation'])
  })

  test('another product of the same maker: its list, and its chain under a certificate of this one', async () => {
    const other = await makeAmd(nowMs, 'Other')
    const roots = { amd: [machines.amd.root, other.root] }
    const given = await snp()
    const listed = { ...given, collateral: { snp: { crl: encodeBase64(await other.list(false)) } } }
    expect(await wrong(listed, { roots })).toEqual([
      'revocation: the list of revoked certificates names another issuer',
    ])
    // The other product's signing key stands under the first one's root.
    const crossed = { amd: [{ ...other.root, ark: machines.amd.root.ark }] }
    const theirs = other.report({ reportData })
    const mixed = { ...given, report: encodeBase64Url(theirs), certificates: encodeBase64Url(hostTable(other.vcek)) }
    expect(await wrong(mixed, { roots })).toEqual(['revocation: the list of revoked certificates names another issuer'])
    expect(namesOf(await wrong(mixed, { roots: crossed }))).toEqual(['chain'])
    const [unsigned] = await wrong({ ...given, certificates: encodeBase64Url(hostTable(other.vcek)) }, { roots })
    expect(unsigned).toBe('report: the signature does not hold')
  })

  test('a provider’s key (VLEK): where the policy allows it, with its own chain, revoked by its own signer', async () => {
    const given = await snp({ provider: true })
    const refused = 'report: it is signed by a key that AMD gave to a provider (VLEK), which the policy does not allow'
    expect(await wrong(given)).toEqual([refused])
    const allowed = { policy: { ...policy, snpProviderKeys: true } }
    expect(await wrong(given, allowed)).toEqual([])
    expect(await wrong(await snp(), allowed)).toEqual([])
    expect(await wrong(await snp({ provider: true }, true), allowed)).toEqual([
      'revocation: AMD has revoked its signing key for Test',
    ])
    // It is for all processors of the provider, and for one firmware.
    expect(await wrong(await snp({ provider: true, chipId: new Uint8Array(64) }), allowed)).toEqual([])
    const other = 'report: the certificate is of another processor or of other firmware'
    expect(await wrong(await snp({ provider: true, microcode: 200 }), allowed)).toEqual([other])
    expect(await wrong(await snp({ provider: true, debug: true }), allowed)).toEqual([
      'debug: the host may read this guest’s memory',
    ])
    const { snp: collateral } = given.collateral as { readonly snp: object }
    const fetched = { ...collateral, vlek: encodeBase64(machines.amd.vlek) }
    expect(await wrong({ ...given, certificates: null, collateral: { snp: fetched } }, allowed)).toEqual([])
  })

  test('a key of one kind in the place of the other, and keys of no processor', async () => {
    const allowed = { policy: { ...policy, snpProviderKeys: true } }
    const given = await snp({ provider: true })
    const asOther = { ...given, certificates: encodeBase64Url(hostTable(machines.amd.vcek, 'vlek')) }
    expect(namesOf(await wrong(asOther, allowed))).toEqual(['report', 'chain', 'revocation'])
    const asOwn = { ...(await snp()), certificates: encodeBase64Url(hostTable(machines.amd.vlek, 'vcek')) }
    expect(namesOf(await wrong(asOwn, allowed))).toEqual(['report', 'chain', 'revocation'])
    const neither = 'report: neither host nor node gives the certificate of the processor’s key'
    const unnamed = { ...given, certificates: encodeBase64Url(hostTable(machines.amd.vlek, 'vcek')) }
    expect(await wrong(unnamed, allowed)).toEqual([neither])
    for (const signingKey of [2, 6, 7]) {
      expect(await wrong(await snp({ signingKey }), allowed)).toEqual(['report: it is signed by no key of a processor'])
    }
  })
})

describe('§38: published samples of SEV-SNP, as of their own time', () => {
  const read = (name: string) => new Uint8Array(readFileSync(join(samples, name)))
  // Their report data was made for somebody else's key: each is a case of a wrong binding, and of nothing else.
  const unbound = 'binding: something else was signed'

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
    expect(namesOf(late)).toEqual(['binding', 'chain', 'debug'])
  })

  test('the pinned roots are AMD’s: their fingerprints, and each signing key is signed by the root of its line', async () => {
    const prints = amdRoots.map(({ ark, ask, asvk }) =>
      [ark, ask, asvk].map((pem) => {
        const certificate = readCertificate(pem)
        return new Bun.CryptoHasher('sha256').update(new Uint8Array(certificate?.rawData ?? [])).digest('hex')
      }),
    )
    expect(prints).toEqual([
      [
        '69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd',
        '67d303bd3905fd38db8b20e0793699870e7fa612eaad5dec358293fd8c0bac1b',
        'c5e081f59b7efab1fe2f8b505e159704e72f29cab7ef7cf628a05a42439082f5',
      ],
      [
        '4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1',
        '5464738c1546aed5f2cecf1dc98c5c960a92e8913238a61711bc90ec6e828521',
        '197e610743a917d6b9bb982a5a9226ccc0a15b611be0619e626aca9151457372',
      ],
      [
        '1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a',
        '5b77ef5fe7a7a004fd9032668fba9d0fda22f88c4442069a479636a6ae3b3185',
        '104e10a8bd060a3c20a434261a57d0588fd65a88915b4f65b08bdecaf8df1a3c',
      ],
    ])
    for (const { ark, ask, asvk } of amdRoots) {
      const [root, ...signing] = [ark, ask, asvk].map(readCertificate)
      for (const one of signing) {
        expect(await one?.verify({ publicKey: root?.publicKey as never, signatureOnly: true })).toBe(true)
      }
    }
  })
})
