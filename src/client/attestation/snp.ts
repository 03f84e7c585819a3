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
import { readSnpReport, type SnpReport, vcekOf } from './snp-report.ts'

/** AMD's extensions of the certificate of a processor's key: `1.3.6.1.4.1.3704.1.…`. */
const amd = '1.3.6.1.4.1.3704.1'
const versionIds = { bootloader: '3.1', tee: '3.2', snp: '3.3', microcode: '3.8' } as const
const fmcId = '3.9'
const hardwareId = '4'

interface Pair {
  readonly line: string
  readonly ark: X509Certificate
  readonly ask: X509Certificate
}

function pairsOf({ amd: given = amdRoots }: Roots): readonly Pair[] {
  return given.flatMap(({ line, ark, ask }) => {
    const [root, signing] = [readCertificate(ark), readCertificate(ask)]
    return root === null || signing === null ? [] : [{ line, ark: root, ask: signing }]
  })
}

/** A DER integer of one byte, as AMD writes a version. */
function numberIn(certificate: X509Certificate, id: string): number | null {
  const value = certificate.getExtension(`${amd}.${id}`)?.value
  const bytes = value === undefined ? [] : [...new Uint8Array(value)]
  const [tag, length, first = 0, second = 0] = bytes
  if (tag !== 2 || bytes.length !== 2 + (length ?? 0)) return null
  if (length === 1 && first < 0x80) return first
  return length === 2 && first === 0 ? second : null
}

/** Whether the key is that of this processor with this firmware: AMD derives one for each. */
function isKeyOf(certificate: X509Certificate, { chipId, versions }: SnpReport): boolean {
  const id = new Uint8Array(certificate.getExtension(`${amd}.${hardwareId}`)?.value ?? [])
  // Turin's has 8 bytes, and its report zeros after them.
  const same = (id.length === 64 || id.length === 8) && id.every((byte, at) => byte === chipId[at])
  const rest = chipId.subarray(id.length).every((byte) => byte === 0)
  const named = Object.entries(versionIds).every(
    ([name, at]) => numberIn(certificate, at) === versions[name as keyof SnpVersions],
  )
  return same && rest && named && (versions.fmc === null || numberIn(certificate, fmcId) === versions.fmc)
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
function certificateOf({ certificates, collateral }: Evidence): X509Certificate | null {
  const own = certificates === null ? null : vcekOf(certificates)
  const bytes = own ?? derIn(fieldsOf(fieldsOf(collateral).snp).vcek)
  return bytes === null ? null : readCertificate(bytes)
}

async function chainCheck(certificate: X509Certificate, pair: Pair | undefined, nowMs: number): Promise<Check> {
  const name = 'chain'
  if (pair === undefined) return check(name, false, `no pinned key of AMD is the issuer ${certificate.issuer}`)
  const fault = await chainFault([certificate, pair.ask], pair.ark, nowMs)
  return check(name, fault === null, fault ?? `leads to AMD’s root for ${pair.line}`)
}

/** AMD gives every processor's key the serial number 0: what its list can name is the signing key, and with it all that this has signed. */
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
  const revoked = isRevoked(list, pair.ask)
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
  const certificate = certificateOf(evidence)
  const { reportData } = report
  if (!report.keyIsVcek || certificate === null) {
    const detail = report.keyIsVcek
      ? 'neither host nor node gives the certificate of the processor’s key'
      : 'it is signed by a key that AMD gave to a provider (VLEK), which is not supported'
    return { checks: [check('report', false, detail), ...machineChecks(report, policy)], reportData }
  }
  const signed = await isSigned(report, certificate)
  const own = isKeyOf(certificate, report)
  const said = signed
    ? own
      ? `signed by processor ${bytesToHex(report.chipId).slice(0, 16)}…`
      : 'the certificate is of another processor or of other firmware'
    : 'the signature does not hold'
  const pair = pairsOf(roots).find(({ ask }) => ask.subject === certificate.issuer)
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
