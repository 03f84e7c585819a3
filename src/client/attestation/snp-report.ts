import { bytesToHex } from '@noble/hashes/utils.js'
import type { SnpField, SnpVersions } from './measurement-policy.ts'

/** An attestation report of SEV-SNP, as AMD's document 56860 ("SEV Secure Nested Paging Firmware ABI") lays it out. */

const reportBytes = 0x4a0
const signedBytes = 0x2a0
/** ECDSA on P-384 with SHA-384. */
const algorithmEcdsaP384 = 1
/** Each half of a signature has 72 bytes, least first, of which a number of P-384 needs 48. */
const halfBytes = 72
const numberBytes = 48
/** The family of Turin's processors, which count their firmware in another order. */
const familyOfTurin = 0x1a
/** Whose key has signed: the processor's own, or one that AMD gave to the provider for its processors. */
export type SnpKey = 'vcek' | 'vlek'
const keysByNumber: readonly (SnpKey | undefined)[] = ['vcek', 'vlek']

export interface SnpReport {
  readonly signed: Uint8Array
  /** Both numbers, most significant byte first. */
  readonly signature: Uint8Array
  readonly reportData: Uint8Array
  readonly measured: Readonly<Record<SnpField, string>>
  /** Of the processor. */
  readonly chipId: Uint8Array
  readonly debug: boolean
  /** Another machine may take this one's state over, and read it. */
  readonly migratable: boolean
  /** 0 is the level at which a guest's own software may stand alone. */
  readonly vmpl: number
  /** null: another one, which signs nothing for others. */
  readonly key: SnpKey | null
  /** What the signing key vouches for, 8 bytes. */
  readonly versions: SnpVersions & { readonly fmc: number | null }
}

function numberAt(bytes: Uint8Array, at: number): Uint8Array | null {
  const half = bytes.subarray(at, at + halfBytes)
  return half.subarray(numberBytes).every((byte) => byte === 0) ? half.slice(0, numberBytes).reverse() : null
}

function versionsOf(tcb: Uint8Array, isTurin: boolean): SnpReport['versions'] {
  const [first = 0, second = 0, third = 0, fourth = 0, , , seventh = 0, microcode = 0] = tcb
  return isTurin
    ? { fmc: first, bootloader: second, tee: third, snp: fourth, microcode }
    : { fmc: null, bootloader: first, tee: second, snp: seventh, microcode }
}

/** null: no report, or one of an unknown form. */
export function readSnpReport(bytes: Uint8Array): SnpReport | null {
  if (bytes.length !== reportBytes) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const version = view.getUint32(0, true)
  const [r, s] = [numberAt(bytes, signedBytes), numberAt(bytes, signedBytes + halfBytes)]
  const known = version === 2 || version === 3 || version === 5
  if (!known || view.getUint32(0x34, true) !== algorithmEcdsaP384 || r === null || s === null) return null
  // The family stands there from the third version on, with which Turin came.
  const isTurin = version >= 3 && bytes[0x188] === familyOfTurin
  const policy = view.getBigUint64(8, true)
  const flags = view.getUint32(0x48, true)
  const cut = (from: number, length: number) => bytes.slice(from, from + length)
  return {
    signed: cut(0, signedBytes),
    signature: Uint8Array.from([...r, ...s]),
    reportData: cut(0x50, 64),
    measured: {
      measurement: bytesToHex(cut(0x90, 48)),
      host_data: bytesToHex(cut(0xc0, 32)),
      id_key_digest: bytesToHex(cut(0xe0, 48)),
      author_key_digest: bytesToHex(cut(0x110, 48)),
    },
    chipId: cut(0x1a0, 64),
    debug: ((policy >> 19n) & 1n) === 1n,
    migratable: ((policy >> 18n) & 1n) === 1n,
    vmpl: view.getUint32(0x30, true),
    key: keysByNumber[(flags >> 2) & 7] ?? null,
    versions: versionsOf(cut(0x180, 8), isTurin),
  }
}

/** The host's certificates, as the GHCB's table has them: entries of an id, a place and a length, up to one of zeros. */
const entryBytes = 24
const entriesMax = 16
const keyIds: Readonly<Record<SnpKey, string>> = {
  vcek: '63da758de6644564adc5f4b93be8accd',
  vlek: 'a8074bc2a25a483eaae639c045a0b8a1',
}

/** The certificate of this key in it; null: there is none. */
export function certificateIn(table: Uint8Array, key: SnpKey): Uint8Array | null {
  const view = new DataView(table.buffer, table.byteOffset, table.length)
  for (let at = 0; at + entryBytes <= table.length && at < entriesMax * entryBytes; at += entryBytes) {
    const [offset, length] = [view.getUint32(at + 16, true), view.getUint32(at + 20, true)]
    if (offset === 0 && length === 0) return null
    if (bytesToHex(table.subarray(at, at + 16)) !== keyIds[key]) continue
    return offset + length <= table.length ? table.slice(offset, offset + length) : null
  }
  return null
}
