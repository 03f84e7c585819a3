import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { keyConfigOf } from '../../../src/protocol/sealed/key-config.ts'
import { encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { dayMs } from '../../../src/time.ts'
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
const tdx: Machines['tdx'] = (wish, collateral) => machines.tdx(wish, collateral)
const machines = await makeMachines()

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
    expect(namesOf(failed)).toEqual(['identity', 'binding'])
    expect(await wrong(await tdx(), { about: { nonce: new Uint8Array(32) } })).toEqual([
      'nonce: it was made for another question',
    ])
    expect(await wrong(await tdx({ reportData: new Uint8Array(64) }))).toEqual([unbound])
  })

  test('revoked: the processor’s key, or the authority above it', async () => {
    expect(await wrong(await tdx({}, { revoked: 'key' }))).toEqual([
      'report: Certificate is revoked',
      'chain: Intel has revoked this processor’s key',
    ])
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
    const quote = await machines.intel.quote({ reportData })
    quote[200] = (quote[200] ?? 0) ^ 1
    const changed = await wrong({ ...given, report: encodeBase64Url(quote) })
    expect(namesOf(changed)).toEqual(['report', 'measurement'])
    // To Intel's own root this maker is a stranger.
    const strange = await wrong(given, { roots: {} })
    expect(namesOf(strange)).toEqual(['report', 'chain'])
  })

  test('each status of the firmware, of the quoting enclave and of the TDX module, unless the policy allows it', async () => {
    const asked = 'the policy asks for UpToDate'
    for (const status of ['SWHardeningNeeded', 'ConfigurationNeeded', 'OutOfDateConfigurationNeeded']) {
      const allowed = { policy: { ...policy, tdxStatuses: ['UpToDate', status] } }
      expect(await wrong(await tdx({}, { status }))).toEqual([`firmware: ${status}; ${asked}`])
      expect(await wrong(await tdx({}, { enclave: status }))).toEqual([`firmware: ${status}; ${asked}`])
      expect(namesOf(await wrong(await tdx({}, { module: status })))).toEqual(['module'])
      const all = await tdx({}, { status, enclave: status, module: status })
      expect(await wrong(all, allowed)).toEqual([])
    }
    // The worse of two counts, and one that nobody knows is none.
    const worse = await wrong(await tdx({}, { status: 'ConfigurationNeeded', enclave: 'OutOfDate' }))
    expect(worse).toEqual([`firmware: OutOfDate; ${asked}`])
    expect(namesOf(await wrong(await tdx({}, { enclave: 'Revoked' })))).toEqual(['report'])
    expect(namesOf(await wrong(await tdx({}, { status: 'Splendid' })))).toEqual(['report'])
  })

  test('the list of another product: signed by Intel, and not about this processor', async () => {
    expect(await wrong(await tdx({}, { lists: 'other product' }))).toEqual([
      'chain: the list of revoked certificates is of another authority than this processor’s key',
    ])
  })
})

describe('§38: published samples of TDX, as of their own time', () => {
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
    expect(namesOf(await wrong(given, { ...inTime, policy: others }))).toEqual(['binding', 'measurement'])
  })

  test('a TDX quote of a processor whose firmware is older than all that Intel still lists', async () => {
    const given = evidence('tdx_guest', read('tdx-outdated-quote.bin'), {
      collateral: collateral('tdx-outdated-collateral.json'),
    })
    const failed = await wrong(given, { roots: {}, atMs: Date.parse('2026-03-01T00:00:00.000Z') })
    expect(failed.slice(0, 2)).toEqual([unbound, 'report: No matching TCB level found'])
  })
})
