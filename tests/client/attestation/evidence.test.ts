import { describe, expect, test } from 'bun:test'
import { parseMeasurementPolicy } from '../../../src/client/attestation/measurement-policy.ts'
import { encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { hostTable } from '../../support/confidential/amd.ts'
import { type Machines, makeMachines, policy, reportData } from '../../support/confidential/judged.ts'

const wrong: Machines['wrong'] = (given, judging) => machines.wrong(given, judging)
const tdx: Machines['tdx'] = (wish, collateral) => machines.tdx(wish, collateral)
const snp: Machines['snp'] = (wish, revoked) => machines.snp(wish, revoked)
const machines = await makeMachines()

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
    const quote = await machines.intel.quote({ reportData })
    const whole = await tdx()
    for (let length = 0; length < quote.length; length += 173) {
      const cut = { ...whole, report: encodeBase64Url(quote.slice(0, length)) }
      expect((await wrong(cut)).length).toBeGreaterThan(0)
    }
    const table = hostTable(machines.amd.vcek)
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
