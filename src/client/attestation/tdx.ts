import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'
import { constants, type Collateral as LibraryCollateral, Quote, QuoteVerifier, type TDReport10 } from '@phala/dcap-qvl'
import type { Evidence } from '../../protocol/attestation/evidence.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { fieldsOf, listOf, textOf, wholeOf } from '../../protocol/verify/given.ts'
import { type Check, check } from '../../protocol/verify/trust.ts'
import {
  chainFault,
  isRevoked,
  listFault,
  readCertificate,
  readChain,
  readRevocations,
  type X509Certificate,
} from './certificates.ts'
import { allowedImage, type MeasurementPolicy, type TdxField } from './measurement-policy.ts'
import type { Judged, Roots } from './roots.ts'

/** Intel's collateral, under the names of the library: PEM chains, JSON texts, and hex. */
const pemNames = ['tcb_info_issuer_chain', 'qe_identity_issuer_chain', 'pck_crl_issuer_chain'] as const
const textNames = ['tcb_info', 'qe_identity'] as const
const hexNames = ['tcb_info_signature', 'qe_identity_signature', 'root_ca_crl', 'pck_crl'] as const
type CollateralName = (typeof pemNames)[number] | (typeof textNames)[number] | (typeof hexNames)[number]
type Collateral = Readonly<Record<CollateralName, string>>

const hexPattern = /^(?:[0-9a-fA-F]{2})+$/

/** null: something is missing, or of another form. */
function collateralOf({ collateral }: Evidence): Collateral | null {
  const given = fieldsOf(fieldsOf(collateral).tdx)
  const names: readonly CollateralName[] = [...pemNames, ...textNames, ...hexNames]
  if (names.some((name) => textOf(given[name]) === null)) return null
  if (hexNames.some((name) => !hexPattern.test(textOf(given[name]) ?? ''))) return null
  return Object.fromEntries(names.map((name) => [name, given[name]])) as Collateral
}

interface TdxQuote {
  readonly report: TDReport10
  /** What the quote itself brings: the processor's key and those above it, in PEM. */
  readonly pem: string
}

function quoteOf(bytes: Uint8Array): TdxQuote | null {
  try {
    const quote = Quote.parse(bytes)
    const report = quote.header.teeType === constants.TEE_TYPE_TDX ? quote.report.asTd10() : null
    const { body } = quote.authData.intoV3().certificationData
    return report === null ? null : { report, pem: new TextDecoder().decode(body) }
  } catch {
    return null
  }
}

interface Chains {
  readonly tcb: readonly X509Certificate[]
  readonly qe: readonly X509Certificate[]
  /** Of the processor's key. */
  readonly pck: readonly X509Certificate[]
  /** Of the list of revoked processors. */
  readonly platform: readonly X509Certificate[]
}

/** null: one is missing, too long, or cannot be read. The library, which reads as many certificates as come, must not see such a one. */
function chainsOf(collateral: Collateral, { pem }: TdxQuote): Chains | null {
  const { tcb_info_issuer_chain, qe_identity_issuer_chain, pck_crl_issuer_chain } = collateral
  const [tcb, qe, pck, platform] = [tcb_info_issuer_chain, qe_identity_issuer_chain, pem, pck_crl_issuer_chain].map(
    readChain,
  )
  return tcb == null || qe == null || pck == null || platform == null ? null : { tcb, qe, pck, platform }
}

const named = (certificate: X509Certificate | undefined, name: string) =>
  certificate !== undefined && `${certificate.subject}, `.includes(`CN=${name}, `)

/**
 * Both lists of revoked certificates, by whom Intel has sign them. The library does not ask who has signed them, and passes over a list
 * that it cannot read.
 */
async function listsFault(
  collateral: Collateral,
  { tcb, qe, pck }: Chains,
  root: X509Certificate,
  nowMs: number,
): Promise<string | null> {
  const [key, issuer] = pck
  const [ofRoot, ofPlatform] = [collateral.root_ca_crl, collateral.pck_crl].map((hex) =>
    readRevocations(hexToBytes(hex)),
  )
  if (key === undefined || issuer === undefined || ofRoot == null || ofPlatform == null) {
    return 'a list of revoked certificates is missing'
  }
  const fault = (await listFault(ofRoot, root, nowMs)) ?? (await listFault(ofPlatform, issuer, nowMs))
  if (fault !== null) return fault
  if (isRevoked(ofPlatform, key)) return 'Intel has revoked this processor’s key'
  if (isRevoked(ofRoot, issuer)) return 'Intel has revoked the authority of this processor’s key'
  const signers = [...tcb.slice(0, 1), ...qe.slice(0, 1)]
  return signers.some((one) => isRevoked(ofRoot, one)) ? 'Intel has revoked the signer of the collateral' : null
}

/**
 * What the library leaves open: who has signed the lists of revoked certificates, whether a certificate may sign others, and that each
 * chain is for its purpose.
 */
async function chainsCheck(
  collateral: Collateral,
  chains: Chains,
  root: X509Certificate,
  nowMs: number,
): Promise<Check> {
  const said = (fault: string | null) => check('chain', fault === null, fault ?? 'leads to Intel’s root')
  const { tcb, qe, pck, platform } = chains
  if (!named(tcb[0], 'Intel SGX TCB Signing') || !named(qe[0], 'Intel SGX TCB Signing')) {
    return said('the collateral is signed by another key of Intel’s than the one for it')
  }
  for (const chain of [tcb, qe, pck]) {
    const fault = await chainFault(chain, root, nowMs)
    if (fault !== null) return said(fault)
  }
  // The list's issuer is the one that stands above the processor's key.
  const [, issuer] = pck
  if (issuer === undefined || platform[0]?.equal(issuer) !== true) {
    return said('the list of revoked certificates is of another authority than this processor’s key')
  }
  return said(await listsFault(collateral, chains, root, nowMs))
}

/** The quote's signatures, the collateral's, its times, and the status that Intel gives this firmware: by the library. */
function quoteChecks(
  report: Uint8Array,
  collateral: Collateral,
  root: Uint8Array,
  policy: MeasurementPolicy,
  nowMs: number,
): readonly Check[] {
  try {
    const verifier = QuoteVerifier.newWithRootCa(Buffer.from(root))
    // Without a chain of the collateral's own, the library takes the quote's, which is the one that was checked above.
    const given = { ...collateral } as unknown as LibraryCollateral
    const { status, advisory_ids: advisories } = verifier.verify(Buffer.from(report), given, nowMs / 1_000)
    const listed = advisories.length === 0 ? '' : ` (${advisories.join(', ')})`
    const good = policy.tdxStatuses.includes(status)
    return [
      check('report', true, 'signed by Intel’s quoting enclave, for a processor of Intel’s'),
      check(
        'firmware',
        good,
        `${status}${listed}${good ? '' : `; the policy asks for ${policy.tdxStatuses.join(', ')}`}`,
      ),
    ]
  } catch (error) {
    // The library's words are constant, but for identities of enclaves.
    return [check('report', false, error instanceof Error ? error.message : 'it does not hold')]
  }
}

/** Bytes in hex of a JSON of Intel's, which writes capitals. */
const sameHex = (bytes: Uint8Array, hex: unknown) => bytesToHex(bytes) === (textOf(hex) ?? '').toLowerCase()

/**
 * Whether the TDX module is one that Intel has signed, and new enough. Intel's collateral lists modules from the second generation on by
 * themselves, and the library reads no such list. That the collateral is Intel's is what the check of the report says.
 */
function moduleCheck(report: TDReport10, { tcb_info: text }: Collateral, policy: MeasurementPolicy): Check {
  const said = (ok: boolean, detail: string) => check('module', ok, detail)
  const info = fieldsOf(foreignJson(text))
  const [svn = 0, generation = 0] = report.teeTcbSvn
  const id = `TDX_${generation.toString(16).padStart(2, '0').toUpperCase()}`
  const listed = listOf(info.tdxModuleIdentities).map(fieldsOf)
  const known = generation === 0 ? fieldsOf(info.tdxModule) : listed.find((one) => one.id === id)
  if (known === undefined) return said(false, `Intel lists no TDX module ${id}`)
  const mask = hexPattern.test(textOf(known.attributesMask) ?? '') ? hexToBytes(textOf(known.attributesMask) ?? '') : []
  const masked = report.seamAttributes.map((byte, at) => byte & (mask[at] ?? 0xff))
  if (!sameHex(report.mrSignerSeam, known.mrsigner) || !sameHex(masked, known.attributes)) {
    return said(false, 'the TDX module is not one that Intel has signed')
  }
  if (generation === 0) return said(true, 'Intel’s, of the first generation')
  const levels = listOf(known.tcbLevels).map(fieldsOf)
  const least = (tcb: unknown) => wholeOf(fieldsOf(tcb).isvsvn)
  // Newest first. A version that cannot be read is above all.
  const level = levels.find(({ tcb }) => least(tcb) >= 0 && svn >= least(tcb))
  const status = textOf(level?.tcbStatus) ?? 'older than all that Intel lists'
  return said(policy.tdxStatuses.includes(status), `${id}, version ${svn}: ${status}`)
}

const measuredOf = (report: TDReport10): Readonly<Record<TdxField, string>> => ({
  mr_td: bytesToHex(report.mrTd),
  rtmr0: bytesToHex(report.rtMr0),
  rtmr1: bytesToHex(report.rtMr1),
  rtmr2: bytesToHex(report.rtMr2),
  rtmr3: bytesToHex(report.rtMr3),
  mr_config_id: bytesToHex(report.mrConfigId),
  mr_owner: bytesToHex(report.mrOwner),
  mr_owner_config: bytesToHex(report.mrOwnerConfig),
})

function machineChecks(report: TDReport10, policy: MeasurementPolicy): readonly Check[] {
  const measured = measuredOf(report)
  const image = allowedImage(policy.tdx, measured)
  // TDX Module specification: the first byte of the attributes makes a machine one that is not trusted, such as by a debugger.
  const debug = report.tdAttributes[0] !== 0
  return [
    check('debug', !debug, debug ? 'the host may read this guest’s memory' : 'off'),
    check(
      'measurement',
      image !== null,
      `${measured.mr_td}${image === null ? ' is not allowed' : ` (${image.name || 'allowed'})`}`,
    ),
  ]
}

/** A quote of Intel TDX. */
export async function judgeTdx(
  evidence: Evidence,
  policy: MeasurementPolicy,
  roots: Roots,
  nowMs: number,
): Promise<Judged> {
  const quote = quoteOf(evidence.report)
  if (quote === null) return { checks: [check('report', false, 'no TDX quote')], reportData: null }
  const { report } = quote
  const { reportData } = report
  const machine = machineChecks(report, policy)
  const collateral = collateralOf(evidence)
  const rootBytes = roots.intel ?? new Uint8Array(constants.TRUSTED_ROOT_CA_DER)
  const root = readCertificate(rootBytes)
  if (collateral === null || root === null) {
    const missing = check('report', false, 'the node has sent no collateral of Intel’s, or not all of it')
    return { checks: [missing, ...machine], reportData }
  }
  const chains = chainsOf(collateral, quote)
  if (chains === null) {
    return { checks: [check('chain', false, 'a chain of certificates is missing'), ...machine], reportData }
  }
  return {
    checks: [
      ...quoteChecks(evidence.report, collateral, rootBytes, policy, nowMs),
      await chainsCheck(collateral, chains, root, nowMs),
      moduleCheck(report, collateral, policy),
      ...machine,
    ],
    reportData,
  }
}
