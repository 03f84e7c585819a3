import { describe, expect, test } from 'bun:test'
import { encodeBase64Url } from '../../src/protocol/signing/base64.ts'
import { hostTable } from '../support/confidential/amd.ts'
import { type Machines, makeMachines, reportData } from '../support/confidential/judged.ts'

/**
 * Symptom: `verify attestation` ended with a stack trace, `sealedFetch` rejected with a library's own error, and a chain of some
 * thousand certificates held its process for seconds. Cause: the library of certificates reads extensions when they are first asked for,
 * and throws then; chains were read to their end before they were counted; what the owner's program for GPUs throws was passed on.
 * Fix: a certificate counts as read when all of it is, evidence and chains have bounds before work, and a judge rejects for nothing.
 */

const machines = await makeMachines()

/** Of an SEV-SNP report, and of the quote that the test plays. */
const signedBytes = { report: 0x2a0, quote: 632 } as const
/** Of a certificate or list, DER: the end of what is signed. The length before it, and the algorithm behind it, are not. */
function signedOf(bytes: Uint8Array): number {
  const [first = 0, second = 0, third = 0] = bytes.subarray(5)
  return first < 0x80 ? 6 + first : first === 0x81 ? 7 + second : 8 + (second << 8) + third
}
const outerBytes = 4
const basicConstraints = Buffer.from('0603551d13', 'hex')
const keyUsage = Buffer.from('0603551d0f', 'hex')

/** The same certificate, DER, with an extension that is no value of its type. */
function broken(der: Uint8Array, extension: Buffer): Uint8Array {
  const bytes = Buffer.from(der)
  const at = bytes.indexOf(extension)
  const value = bytes.indexOf(0x04, at + extension.length) + 2
  bytes[value] = (bytes[value] ?? 0) ^ 0x20
  return new Uint8Array(bytes)
}

type Chains = Record<'tcb_info_issuer_chain' | 'qe_identity_issuer_chain' | 'pck_crl_issuer_chain', string>
const chainsOf = ({ collateral }: Awaited<ReturnType<Machines['tdx']>>) => (collateral as { readonly tdx: Chains }).tdx

const brokenPem = (pem: string, extension: Buffer) =>
  pem.replace(/(-----BEGIN CERTIFICATE-----)([^-]+)/, (_, begin: string, text: string) => {
    const der = new Uint8Array(Buffer.from(text, 'base64'))
    return `${begin}\n${Buffer.from(broken(der, extension)).toString('base64')}\n`
  })

describe('§38: evidence that cannot be read is refused, and nothing is thrown', () => {
  test('extensions of a certificate that are no value of their type', async () => {
    const given = await machines.snp()
    for (const extension of [basicConstraints, keyUsage]) {
      const table = hostTable(broken(machines.amd.vcek, extension))
      expect(await machines.wrong({ ...given, certificates: encodeBase64Url(table) })).toEqual([
        'report: neither host nor node gives the certificate of the processor’s key',
      ])
    }
    const quoted = await machines.tdx()
    const chains = chainsOf(quoted)
    for (const name of ['tcb_info_issuer_chain', 'qe_identity_issuer_chain', 'pck_crl_issuer_chain'] as const) {
      const tdx = { ...chains, [name]: brokenPem(chains[name], basicConstraints) }
      expect(await machines.wrong({ ...quoted, collateral: { tdx } })).toEqual([
        'chain: a chain of certificates is missing',
      ])
    }
  })

  test('the owner’s program for GPUs cannot be run', async () => {
    const given = { ...(await machines.snp()), gpu: 'AA' }
    const checkGpu = () => Promise.reject(new Error('ENOENT'))
    expect(await machines.wrong(given, { checkGpu })).toEqual(['gpu: your program could not be run'])
  })

  test('more than a judge reads: long chains are not looked into, larger evidence not at all', async () => {
    const given = await machines.tdx()
    const chains = chainsOf(given)
    const long = { ...chains, tcb_info_issuer_chain: chains.tcb_info_issuer_chain.repeat(3) }
    const failed = await machines.wrong({ ...given, collateral: { tdx: long } })
    expect(failed).toEqual(['chain: a chain of certificates is missing'])
    const huge = { ...chains, tcb_info_issuer_chain: chains.tcb_info_issuer_chain.repeat(300) }
    const tooLarge = 'form: it has more than 262144 bytes'
    expect(await machines.wrong({ ...given, collateral: { tdx: huge } })).toEqual([tooLarge])
    const crl = 'A'.repeat(300_000)
    expect(await machines.wrong({ ...(await machines.snp()), collateral: { snp: { crl } } })).toEqual([tooLarge])
    const endless: { again?: unknown } = {}
    endless.again = endless
    expect(await machines.wrong(endless)).toEqual([tooLarge])
  })

  test('bytes of quote, report, certificate and list changed: some check fails, and none is thrown', async () => {
    const { intel, amd, wrong } = machines
    const [quoted, given] = [await machines.tdx(), await machines.snp()]
    const [quote, report, list] = [await intel.quote({ reportData }), amd.report({ reportData }), await amd.list(false)]
    const places = 40
    for (let at = 0; at < places; at++) {
      const changed = (bytes: Uint8Array, to: number, from = 0) => {
        const copy = bytes.slice()
        const place = from + Math.floor(((to - from) * at) / places)
        copy[place] = (copy[place] ?? 0) ^ (1 << (at % 8))
        return copy
      }
      // Behind what is signed stand white space and numbers that nothing hangs on.
      const spoilt = [
        { ...given, report: encodeBase64Url(changed(report, signedBytes.report)) },
        { ...given, certificates: encodeBase64Url(hostTable(changed(amd.vcek, signedOf(amd.vcek), outerBytes))) },
        {
          ...given,
          collateral: { snp: { crl: Buffer.from(changed(list, signedOf(list), outerBytes)).toString('base64') } },
        },
        { ...quoted, report: encodeBase64Url(changed(quote, signedBytes.quote)) },
      ]
      for (const [which, one] of spoilt.entries())
        expect([at, which, (await wrong(one)).length]).not.toEqual([at, which, 0])
    }
  })
})

test('§38: what a node says of itself stands on one line, short, and without what could control a terminal', async () => {
  const word = '\u001b[2J\n  node is allowed\u202e\u2028'
  const status = `${word}${'x'.repeat(2_000)}`
  const [said = '', ...rest] = await machines.wrong(await machines.tdx({}, { module: status }))
  expect([said.startsWith('module: TDX_01, version'), said.includes('[2J  node is allowed'), rest]).toEqual([
    true,
    true,
    [],
  ])
  expect(/[\p{C}\p{Zl}\p{Zp}]/u.test(said)).toBe(false)
  expect(said.length).toBeLessThan(600)
})
