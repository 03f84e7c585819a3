import { bytesToHex } from '@noble/hashes/utils.js'
import {
  attestationBytesMax,
  type Evidence,
  type ExpectedEvidence,
  gpuNonceOf,
  readEvidence,
  reportDataOf,
} from '../../protocol/attestation/evidence.ts'
import { encodeBase64Url } from '../../protocol/signing/base64.ts'
import { identityFingerprint } from '../../protocol/signing/identity-fingerprint.ts'
import { type Check, check, type Verdict, verdict } from '../../protocol/verify/trust.ts'
import type { MeasurementPolicy } from './measurement-policy.ts'
import type { Judged, Roots } from './roots.ts'
import { judgeSnp } from './snp.ts'
import { judgeTdx } from './tdx.ts'

export interface JudgeOptions {
  readonly policy: MeasurementPolicy
  readonly roots?: Roots
  /** Checks what GPUs have signed for a nonce of 32 bytes. Absent: nothing here can. */
  readonly checkGpu?: (evidence: Uint8Array, nonce: Uint8Array) => Promise<boolean>
  /** Unix ms. */
  readonly now?: () => number
}

const kinds: Readonly<
  Record<string, (evidence: Evidence, policy: MeasurementPolicy, roots: Roots, nowMs: number) => Promise<Judged>>
> = { tdx_guest: judgeTdx, sev_guest: judgeSnp }

const same = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, at) => byte === b[at])

function aboutChecks(evidence: Evidence, expected: ExpectedEvidence): readonly Check[] {
  const fingerprint = identityFingerprint(encodeBase64Url(evidence.identity)) ?? 'none'
  const known = expected.fingerprint === null ? null : fingerprint === expected.fingerprint
  const key = expected.keyConfig === null ? null : same(evidence.keyConfig, expected.keyConfig)
  const fresh = expected.nonce === null ? null : same(evidence.nonce, expected.nonce)
  const notSaid = 'compare it with what the node prints'
  return [
    check('identity', known, known === null ? `${fingerprint}: ${notSaid}` : fingerprint),
    check('sealing key', key, key === false ? 'it is about another key' : encodeBase64Url(evidence.keyConfig)),
    check(
      'nonce',
      fresh,
      fresh === null
        ? `${bytesToHex(evidence.nonce)}: is it the one that you chose?`
        : fresh
          ? 'the one that was asked for'
          : 'it was made for another question',
    ),
  ]
}

/** That the hardware has signed this identity, this key and this nonce, and no others. */
function bindingCheck(evidence: Evidence, reportData: Uint8Array | null): Check {
  const expected = reportDataOf(evidence.identity, evidence.keyConfig, evidence.nonce)
  const bound = reportData !== null && same(reportData, expected)
  return check('binding', bound, bound ? 'identity, key and nonce are what was signed' : 'something else was signed')
}

async function gpuCheck(evidence: Evidence, { policy, checkGpu }: JudgeOptions): Promise<Check> {
  const { gpu } = evidence
  const name = 'gpu'
  if (gpu === null) return check(name, policy.gpuNeeded ? false : null, 'the node has sent nothing about its GPUs')
  if (checkGpu === undefined) {
    return check(name, policy.gpuNeeded ? false : null, 'nothing here can check it: name a program with --gpu-check')
  }
  const nonce = gpuNonceOf(reportDataOf(evidence.identity, evidence.keyConfig, evidence.nonce))
  try {
    const good = await checkGpu(gpu, nonce)
    return check(name, good, good ? 'your program accepts it' : 'your program refuses it')
  } catch {
    return check(name, false, 'your program could not be run')
  }
}

/** A node chooses names in its certificates and words in its collateral, and a person may read them at a terminal. */
const detailCharactersMax = 500
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu
const printable = (text: string) => text.replaceAll(unprintable, '').slice(0, detailCharactersMax)
const shown = (given: Check): Check => ({ ...given, detail: printable(given.detail) })

/** Also of what a program was given elsewhere, which JSON need not be able to write. */
function isTooLarge(given: unknown): boolean {
  try {
    return (JSON.stringify(given) ?? '').length > attestationBytesMax
  } catch {
    return true
  }
}

async function judgedBy(
  judge: (typeof kinds)[string] | undefined,
  evidence: Evidence,
  options: JudgeOptions,
): Promise<Judged> {
  const said = (detail: string) => ({ checks: [check('report', false, detail)], reportData: null })
  if (judge === undefined) return said('a kind of computer that is not known here')
  try {
    return await judge(evidence, options.policy, options.roots ?? {}, (options.now ?? Date.now)())
  } catch {
    // Libraries read what a node has written, and throw what they like.
    return said('it cannot be read')
  }
}

/** Whether evidence shows a machine that the policy allows (§38). Nothing of it is believed by itself. Rejects for nothing. */
export async function judgeEvidence(
  given: unknown,
  expected: ExpectedEvidence,
  options: JudgeOptions,
): Promise<Verdict> {
  const formless = (detail: string) => verdict('attestation', '', [check('form', false, detail)], null)
  if (isTooLarge(given)) return formless(`it has more than ${attestationBytesMax} bytes`)
  const evidence = readEvidence(given)
  if (evidence === null) return formless('this is no evidence of a computer')
  const judge = Object.hasOwn(kinds, evidence.provider) ? kinds[evidence.provider] : undefined
  const judged = await judgedBy(judge, evidence, options)
  const checks = [
    ...aboutChecks(evidence, expected),
    bindingCheck(evidence, judged.reportData),
    ...judged.checks,
    await gpuCheck(evidence, options),
  ]
  return verdict('attestation', printable(evidence.provider), checks.map(shown), null)
}
