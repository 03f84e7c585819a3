import { bytesToHex } from '@noble/hashes/utils.js'
import type { Evidence } from '../../protocol/attestation/evidence.ts'
import { decodeBase64 } from '../../protocol/signing/base64.ts'
import { fieldsOf, textOf } from '../../protocol/verify/given.ts'
import { type Check, check } from '../../protocol/verify/trust.ts'
import { amdRoots } from './amd-roots.ts'
import {
  chainFault,
  isRevoked,
  listFault,
  readCertificate,
  readRevocations,
  type X509Certificate,
} from './certificates.ts'
import { allowedImage, type MeasurementPolicy, type SnpVersions } from './measurement-policy.ts'
import type { Judged, Roots } from './roots.ts'
import { certificateIn, readSnpReport, type SnpKey, type SnpReport } from './snp-report.ts'

/** AMD's extensions of the certificate of a processor's key: `1.3.6.1.4.1.3704.1.…`. */
const amd = '1.3.6.1.4.1.3704.1'
const versionIds = { bootloader: '3.1', tee: '3.2', snp: '3.3', microcode: '3.8' } as const
const fmcId = '3.9'
const hardwareId = '4'
const providerId = '5'

interface Pair {
  readonly line: string
  readonly ark: X509Certificate
  /** Of keys of this kind. */
  readonly signing: X509Certificate
}

/** Which of AMD's keys signs certificates of keys of each kind. */
const signingOf = { vcek: 'ask', vlek: 'asvk' } as const

function pairsOf({ amd: given = amdRoots }: Roots, key: SnpKey): readonly Pair[] {
  return given.flatMap(({ line, ark, ...rest }) => {
    const [root, signing] = [readCertificate(ark), readCertificate(rest[signingOf[key]])]
    return root === null || signing === null ? [] : [{ line, ark: root, signing }]
  })
}

/** A DER integer of one byte, as AMD writes a version. */
function numberIn(certificate: X509Certificate, id: string): number | null {
  const bytes = extensionOf(certificate, id) ?? new Uint8Array()
  const [tag, length, first = 0, second = 0] = bytes
  if (tag !== 2 || bytes.length !== 2 + (length ?? 0)) return null
  if (length === 1 && first < 0x80) return first
  return length === 2 && first === 0 ? second : null
}

/** The certificate's extension; null: it has none. */
const extensionOf = (certificate: X509Certificate, id: string): Uint8Array | null => {
  const value = certificate.getExtension(`${amd}.${id}`)?.value
  return value === undefined ? null : new Uint8Array(value)
}

/** AMD derives a processor's own key from the processor. A provider's is for all processors of this provider. */
function isPlaceOf(certificate: X509Certificate, { chipId, key }: SnpReport): boolean {
  const id = extensionOf(certificate, hardwareId)
  if (key === 'vlek') return id === null && extensionOf(certificate, providerId) !== null
  // Turin's has 8 bytes, and its report zeros after them.
  if (id === null || (id.length !== 64 && id.length !== 8)) return false
  return id.every((byte, at) => byte === chipId[at]) && chipId.subarray(id.length).every((byte) => byte === 0)
}

/** Whether the key is that of this processor, or of its provider, with this firmware: AMD derives one for each. */
function isKeyOf(certificate: X509Certificate, report: SnpReport): boolean {
  const { versions } = report
  const named = Object.entries(versionIds).every(
    ([name, at]) => numberIn(certificate, at) === versions[name as keyof SnpVersions],
  )
  return (
    isPlaceOf(certificate, report) && named && (versions.fmc === null || numberIn(certificate, fmcId) === versions.fmc)
  )
}

async function isSigned({ signed, signature }: SnpReport, certificate: X509Certificate): Promise<boolean> {
  try {
    const curve = { name: 'ECDSA', namedCurve: 'P-384' }
    const key = await certificate.publicKey.export(curve, ['verify'])
    const bytes = (part: Uint8Array) => part as Uint8Array<ArrayBuffer>
    return await crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-384' }, key, bytes(signature), bytes(signed))
  } catch {
    return false
  }
}

const derIn = (value: unknown): Uint8Array | null => decodeBase64(textOf(value) ?? '?')

/** From the host's table, else from what the node's owner has fetched. */
function certificateOf({ certificates, collateral }: Evidence, key: SnpKey): X509Certificate | null {
  const own = certificates === null ? null : certificateIn(certificates, key)
  const bytes = own ?? derIn(fieldsOf(fieldsOf(collateral).snp)[key])
  return bytes === null ? null : readCertificate(bytes)
}

async function chainCheck(certificate: X509Certificate, pair: Pair | undefined, nowMs: number): Promise<Check> {
  const name = 'chain'
  if (pair === undefined) return check(name, false, `no pinned key of AMD is the issuer ${certificate.issuer}`)
  const fault = await chainFault([certificate, pair.signing], pair.ark, nowMs)
  return check(name, fault === null, fault ?? `leads to AMD’s root for ${pair.line}`)
}

/** AMD gives every key of a processor the serial number 0: what its list can name is the signing key, and with it all that this has signed. */
async function revocationCheck(
  evidence: Evidence,
  policy: MeasurementPolicy,
  pair: Pair | undefined,
  nowMs: number,
): Promise<Check> {
  const name = 'revocation'
  const given = fieldsOf(fieldsOf(evidence.collateral).snp).crl
  if (given === undefined) return check(name, policy.snpListNeeded ? false : null, 'the node has sent no list of AMD’s')
  const bytes = derIn(given)
  const list = bytes === null ? null : readRevocations(bytes)
  if (list === null || pair === undefined) return check(name, false, 'the list cannot be read')
  const fault = await listFault(list, pair.ark, nowMs)
  if (fault !== null) return check(name, false, fault)
  const revoked = isRevoked(list, pair.signing)
  return check(name, !revoked, revoked ? `AMD has revoked its signing key for ${pair.line}` : 'not revoked')
}

function versionsCheck({ versions }: SnpReport, { snpLeast }: MeasurementPolicy): Check {
  const names = Object.keys(versionIds) as (keyof SnpVersions)[]
  const has = names.map((name) => `${name} ${versions[name]}`).join(', ')
  if (snpLeast === null) return check('firmware', false, `${has}; the policy allows nothing with SEV-SNP`)
  const old = names.filter((name) => versions[name] < snpLeast[name])
  const asked = old.map((name) => `${name} ${snpLeast[name]}`).join(', ')
  return check('firmware', old.length === 0, old.length === 0 ? has : `${has}; the policy asks for ${asked}`)
}

function machineChecks(report: SnpReport, policy: MeasurementPolicy): readonly Check[] {
  const image = allowedImage(policy.snp, report.measured)
  const { debug, migratable, vmpl } = report
  return [
    check('debug', !debug, debug ? 'the host may read this guest’s memory' : 'off'),
    check('migration', !migratable, migratable ? 'another guest may take its memory over' : 'not allowed'),
    check('level', vmpl === 0, `VMPL ${vmpl}`),
    check(
      'measurement',
      image !== null,
      `${report.measured.measurement}${image === null ? ' is not allowed' : ` (${image.name || 'allowed'})`}`,
    ),
    versionsCheck(report, policy),
  ]
}

/** Why nothing that this key has signed counts; null: it does. */
function refusedKey({ key }: SnpReport, { snpProviderKeys }: MeasurementPolicy): string | null {
  if (key === null) return 'it is signed by no key of a processor'
  return key === 'vlek' && !snpProviderKeys
    ? 'it is signed by a key that AMD gave to a provider (VLEK), which the policy does not allow'
    : null
}

/** A report of AMD SEV-SNP. */
export async function judgeSnp(
  evidence: Evidence,
  policy: MeasurementPolicy,
  roots: Roots,
  nowMs: number,
): Promise<Judged> {
  const report = readSnpReport(evidence.report)
  if (report === null) {
    return { checks: [check('report', false, 'no SEV-SNP report of a version that is known here')], reportData: null }
  }
  const { reportData, key } = report
  const refused = refusedKey(report, policy)
  const certificate = key === null ? null : certificateOf(evidence, key)
  if (refused !== null || key === null || certificate === null) {
    const missing = 'neither host nor node gives the certificate of the processor’s key'
    return { checks: [check('report', false, refused ?? missing), ...machineChecks(report, policy)], reportData }
  }
  const signed = await isSigned(report, certificate)
  const own = isKeyOf(certificate, report)
  const by = key === 'vcek' ? `processor ${bytesToHex(report.chipId).slice(0, 16)}…` : 'a key of the provider'
  const said = signed
    ? own
      ? `signed by ${by}`
      : 'the certificate is of another processor or of other firmware'
    : 'the signature does not hold'
  const pair = pairsOf(roots, key).find(({ signing }) => signing.subject === certificate.issuer)
  return {
    checks: [
      check('report', signed && own, said),
      await chainCheck(certificate, pair, nowMs),
      await revocationCheck(evidence, policy, pair, nowMs),
      ...machineChecks(report, policy),
    ],
    reportData,
  }
}
