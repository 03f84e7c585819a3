import { sha512 } from '@noble/hashes/sha2.js'
import { concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { brand } from '../../brand.ts'
import { decodeBase64Url } from '../signing/base64.ts'
import { fieldsOf, textOf } from '../verify/given.ts'

/** What a node shows of the confidential machine on which its agent runs (§38). Programs that carry it need not understand it. */

/** Where a gateway asks an agent for it: this, and the client's nonce. */
export const attestationPath = `/${brand}/v1/attestation`
export const attestationObject = `${brand}.attestation`
/** One node's evidence with its collateral, as JSON, bytes. */
export const attestationBytesMax = 256 * 1024
/** Chosen by the client, 32 bytes. */
export const attestationNonceBytes = 32
const nonceForm = /^[0-9a-f]{64}$/

export const isAttestationNonce = (text: string): boolean => nonceForm.test(text)

/** What the hardware signs, 64 bytes: which identity and which key are in the machine, and that the evidence is not older than the nonce. */
export function reportDataOf(identity: Uint8Array, keyConfig: Uint8Array, nonce: Uint8Array): Uint8Array {
  return sha512(concatBytes(utf8ToBytes(`${brand}-attest-v1`), identity, keyConfig, nonce))
}

/** NVIDIA's evidence takes a nonce of 32 bytes. This one binds it to the same key. */
export const gpuNonceOf = (reportData: Uint8Array): Uint8Array => reportData.slice(0, 32)

/** On the wire. Bytes are base64url. */
export interface Attestation {
  readonly object: typeof attestationObject
  /** The client's, hex. */
  readonly nonce: string
  readonly identity_public_key_ed25519: string
  /** The key for sealed inference that the evidence is about, 41 bytes. */
  readonly key_config: string
  /** As configfs-tsm names it: `tdx_guest`, `sev_guest`. */
  readonly provider: string
  /** `outblob`: a TDX quote, or an SEV-SNP report. */
  readonly report: string
  /** `auxblob`: the host's certificates; null: it gives none. */
  readonly certificates: string | null
  /** What the maker has signed of this hardware, as the node's owner fetched it; null: none. */
  readonly collateral: unknown
  /** What the owner's command says of the GPUs, for the nonce of `gpuNonceOf`; null: none. */
  readonly gpu: string | null
}

/** The same, read. */
export interface Evidence {
  readonly nonce: Uint8Array
  readonly identity: Uint8Array
  readonly keyConfig: Uint8Array
  readonly provider: string
  readonly report: Uint8Array
  readonly certificates: Uint8Array | null
  readonly collateral: unknown
  readonly gpu: Uint8Array | null
}

/** Which identity, key and nonce the evidence must be about. null: the reader has not said, and the evidence's own are taken. */
export interface ExpectedEvidence {
  /** `SHA256:…`, as the node prints it. */
  readonly fingerprint: string | null
  /** The 41 bytes of the key to which requests are sealed. */
  readonly keyConfig: Uint8Array | null
  readonly nonce: Uint8Array | null
}

const bytesOf = (value: unknown): Uint8Array | null => decodeBase64Url(textOf(value) ?? '?')
const mayLack = (value: unknown): Uint8Array | null | undefined => {
  if (value === null || value === undefined) return null
  return bytesOf(value) ?? undefined
}

/** null: it has another form. Whether it is true is another question. */
export function readEvidence(value: unknown): Evidence | null {
  const given = fieldsOf(value)
  const nonce = textOf(given.nonce) ?? ''
  const identity = bytesOf(given.identity_public_key_ed25519)
  const keyConfig = bytesOf(given.key_config)
  const provider = textOf(given.provider)
  const report = bytesOf(given.report)
  const certificates = mayLack(given.certificates)
  const gpu = mayLack(given.gpu)
  if (given.object !== attestationObject || !isAttestationNonce(nonce)) return null
  if (identity === null || keyConfig === null || provider === null || report === null) return null
  if (certificates === undefined || gpu === undefined) return null
  return {
    ...{ nonce: hexToBytes(nonce), identity, keyConfig, provider, report, certificates, gpu },
    collateral: given.collateral ?? null,
  }
}
