import { p384 } from '@noble/curves/nist.js'
import type { AmdRoot } from '../../../src/client/attestation/amd-roots.ts'
import { dayMs } from '../../../src/time.ts'
import { der, derExtension, derOf, makeList, makeSigner, type Signer } from './makers.ts'

/** A maker of processors with SEV-SNP, and one processor of its. */
export interface AmdMaker {
  readonly root: AmdRoot
  /** DER: of the processor's own key, and of one that a provider has loaded into it. */
  readonly vcek: Uint8Array
  readonly vlek: Uint8Array
  /** A list, DER, that revokes both signing keys, or nothing. */
  list(revoked: boolean): Promise<Uint8Array>
  report(wish: SnpWish): Uint8Array
}

export interface SnpWish {
  readonly reportData: Uint8Array
  readonly measurement?: Uint8Array
  readonly debug?: boolean
  readonly vmpl?: number
  /** Of the microcode; the certificate is for 115. */
  readonly microcode?: number
  readonly chipId?: Uint8Array
  /** Signed by the provider's key. */
  readonly provider?: boolean
  /** The number of the key that is said to have signed. */
  readonly signingKey?: number
}

export const snpMeasurement = new Uint8Array(48).fill(0x5a)
const chip = new Uint8Array(64).fill(0xc1)
const versions = { bootloader: 4, tee: 0, snp: 22, microcode: 115 } as const
const amd = '1.3.6.1.4.1.3704.1'
const askSerial = '10001'
const asvkSerial = '10101'

const integer = (value: number) => der(0x02, Uint8Array.of(value))

function layOut({ reportData, measurement = snpMeasurement, debug = false, vmpl = 0, ...rest }: SnpWish): Buffer {
  const { microcode = versions.microcode, chipId = chip, provider = false, signingKey = provider ? 1 : 0 } = rest
  const report = Buffer.alloc(0x4a0)
  report.writeUInt32LE(2, 0)
  // ABI 1.51, simultaneous threads, the bit that must be set.
  report.writeBigUInt64LE(0x3_01_33n | (debug ? 1n << 19n : 0n), 8)
  report.writeUInt32LE(vmpl, 0x30)
  report.writeUInt32LE(1, 0x34)
  report.writeUInt32LE(signingKey << 2, 0x48)
  report.set(reportData, 0x50)
  report.set(measurement, 0x90)
  report.set([versions.bootloader, versions.tee, 0, 0, 0, 0, versions.snp, microcode], 0x180)
  report.set(chipId, 0x1a0)
  return report
}

/** Without WebCrypto, which needs a thread of its own. */
function signed(secretKey: Uint8Array, wish: SnpWish): Uint8Array {
  const report = layOut(wish)
  const signature = p384.sign(report.subarray(0, 0x2a0), secretKey)
  report.set(signature.slice(0, 48).reverse(), 0x2a0)
  report.set(signature.slice(48).reverse(), 0x2a0 + 72)
  return new Uint8Array(report)
}

const secretOf = async ({ keys }: Signer) => {
  const { d = '' } = await crypto.subtle.exportKey('jwk', keys.privateKey)
  return new Uint8Array(Buffer.from(d, 'base64url'))
}
const pemText = ({ certificate }: Signer) => certificate.toString('pem')

/** `line`: as the maker calls this line of processors. */
export async function makeAmd(nowMs: number, line = 'Test'): Promise<AmdMaker> {
  const times = { from: nowMs - 365 * dayMs, to: nowMs + 3_650 * dayMs }
  const maker = { algorithm: 'amd', authority: true, ...times } as const
  const ark = await makeSigner({ ...maker, subject: `CN=ARK-${line}, O=Test`, issuer: null, serial: '10000' })
  const ask = await makeSigner({ ...maker, subject: `CN=SEV-${line}, O=Test`, issuer: ark, serial: askSerial })
  const asvk = await makeSigner({ ...maker, subject: `CN=SEV-VLEK-${line}, O=Test`, issuer: ark, serial: asvkSerial })
  const firmware = [
    derExtension(`${amd}.3.1`, integer(versions.bootloader)),
    derExtension(`${amd}.3.2`, integer(versions.tee)),
    derExtension(`${amd}.3.3`, integer(versions.snp)),
    derExtension(`${amd}.3.8`, integer(versions.microcode)),
  ]
  const leaf = { algorithm: 'processor', authority: false, serial: '00', ...times } as const
  const vcek = await makeSigner({
    ...{ ...leaf, subject: 'CN=SEV-VCEK, O=Test', issuer: ask },
    extensions: [...firmware, derExtension(`${amd}.4`, chip)],
  })
  const vlek = await makeSigner({
    ...{ ...leaf, subject: 'CN=SEV-VLEK, O=Test', issuer: asvk },
    extensions: [...firmware, derExtension(`${amd}.5`, der(0x16, Buffer.from('cloud.example')))],
  })
  const [own, provided] = await Promise.all([secretOf(vcek), secretOf(vlek)])
  return {
    root: { line, ark: pemText(ark), ask: pemText(ask), asvk: pemText(asvk) },
    vcek: derOf(vcek),
    vlek: derOf(vlek),
    list: (revoked) => makeList(ark, revoked ? [askSerial, asvkSerial] : [], nowMs),
    report: (wish) => signed(wish.provider === true ? provided : own, wish),
  }
}

/** What the host's table calls each certificate. */
const tableIds = { vcek: '63da758de6644564adc5f4b93be8accd', vlek: 'a8074bc2a25a483eaae639c045a0b8a1' } as const

/** As the host's table has it: one certificate. */
export function hostTable(certificate: Uint8Array, key: keyof typeof tableIds = 'vcek'): Uint8Array {
  const table = Buffer.alloc(48 + certificate.length)
  table.set(Buffer.from(tableIds[key], 'hex'))
  table.writeUInt32LE(48, 16)
  table.writeUInt32LE(certificate.length, 20)
  table.set(certificate, 48)
  return new Uint8Array(table)
}
