import { expect } from 'bun:test'
import { judgeEvidence } from '../../../src/client/attestation/judge.ts'
import { type MeasurementPolicy, parseMeasurementPolicy } from '../../../src/client/attestation/measurement-policy.ts'
import type { Roots } from '../../../src/client/attestation/roots.ts'
import { type Attestation, attestationObject, reportDataOf } from '../../../src/protocol/attestation/evidence.ts'
import { keyConfigOf } from '../../../src/protocol/sealed/key-config.ts'
import { encodeBase64, encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { identityFingerprint } from '../../../src/protocol/signing/identity-fingerprint.ts'
import { type AmdMaker, hostTable, makeAmd, type SnpWish, snpMeasurement } from './amd.ts'
import { type CollateralWish, type IntelMaker, makeIntel, type TdxWish, tdxMeasurement } from './intel.ts'

/** Evidence of machines that a test plays, about one identity, key and nonce, judged at one time. */

export const nowMs = Date.parse('2026-11-20T12:00:00.000Z')
const identity = new Uint8Array(32).fill(1)
const keyConfig = keyConfigOf(new Uint8Array(32).fill(2))
const nonce = new Uint8Array(32).fill(3)
export const reportData = reportDataOf(identity, keyConfig, nonce)
const expected = { fingerprint: identityFingerprint(encodeBase64Url(identity)), keyConfig, nonce }

export const policy = parseMeasurementPolicy(
  JSON.stringify({
    tdx: [{ name: 'image 7', mr_td: tdxMeasurement.toHex() }],
    snp: [{ name: 'image 8', measurement: snpMeasurement.toHex() }],
    snp_tcb_least: { bootloader: 4, tee: 0, snp: 22, microcode: 115 },
  }),
)

export function evidence(provider: string, report: Uint8Array, more: Partial<Attestation>): Attestation {
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

export interface Judging {
  readonly about?: Partial<typeof expected>
  readonly policy?: MeasurementPolicy
  readonly atMs?: number
  readonly roots?: Roots
  readonly checkGpu?: (evidence: Uint8Array, nonce: Uint8Array) => Promise<boolean>
}

export interface Machines {
  readonly intel: IntelMaker
  readonly amd: AmdMaker
  readonly roots: Roots
  tdx(wish?: Partial<TdxWish>, collateral?: CollateralWish): Promise<Attestation>
  /** `revoked`: AMD's list names the key that has signed the processor's. */
  snp(wish?: Partial<SnpWish>, revoked?: boolean): Promise<Attestation>
  /** What does not hold, by name; empty: the machine is accepted. */
  wrong(given: unknown, judging?: Judging): Promise<readonly string[]>
}

export async function makeMachines(): Promise<Machines> {
  const [intel, amd] = await Promise.all([makeIntel(nowMs), makeAmd(nowMs)])
  const roots = { intel: intel.root, amd: [amd.root] }
  return {
    ...{ intel, amd, roots },
    tdx: async (wish = {}, collateral = {}) => {
      const quote = await intel.quote({ reportData, ...wish })
      return evidence('tdx_guest', quote, { collateral: { tdx: await intel.collateral(collateral) } })
    },
    snp: async (wish = {}, revoked = false) => {
      const report = amd.report({ reportData, ...wish })
      const crl = encodeBase64(await amd.list(revoked))
      const table = wish.provider === true ? hostTable(amd.vlek, 'vlek') : hostTable(amd.vcek)
      return evidence('sev_guest', report, { certificates: encodeBase64Url(table), collateral: { snp: { crl } } })
    },
    wrong: async (given, { about, atMs = nowMs, ...more } = {}) => {
      const options = { policy, roots, now: () => atMs, ...more }
      const { valid, checks } = await judgeEvidence(given, { ...expected, ...about }, options)
      const failed = checks.filter(({ ok }) => ok === false).map(({ name, detail }) => `${name}: ${detail}`)
      expect(valid).toBe(failed.length === 0)
      return failed
    },
  }
}

/** The names alone. */
export const namesOf = (failed: readonly string[]): readonly string[] => failed.map((one) => one.split(':')[0] ?? '')
