import { p384 } from '@noble/curves/nist.js'
import type { AmdRoot } from '../../../src/client/attestation/amd-roots.ts'
import { dayMs } from '../../../src/time.ts'
import { der, derExtension, derOf, makeList, makeSigner } from './makers.ts'

/** A maker of processors with SEV-SNP, and one processor of its. */
export interface AmdMaker {
  readonly root: AmdRoot
  /** DER. */
  readonly vcek: Uint8Array
  /** A list, DER, that revokes the signing key or not. */
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
}

export const snpMeasurement = new Uint8Array(48).fill(0x5a)
const chip = new Uint8Array(64).fill(0xc1)
const versions = { bootloader: 4, tee: 0, snp: 22, microcode: 115 } as const
const amd = '1.3.6.1.4.1.3704.1'
const askSerial = '10001'

const integer = (value: number) => der(0x02, Uint8Array.of(value))

function layOut({ reportData, measurement = snpMeasurement, debug = false, vmpl = 0, ...rest }: SnpWish): Buffer {
  const { microcode = versions.microcode, chipId = chip } = rest
  const report = Buffer.alloc(0x4a0)
  report.writeUInt32LE(2, 0)
  // ABI 1.51, simultaneous threads, the bit that must be set.
  report.writeBigUInt64LE(0x3_01_33n | (debug ? 1n << 19n : 0n), 8)
  report.writeUInt32LE(vmpl, 0x30)
  report.writeUInt32LE(1, 0x34)
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

export async function makeAmd(nowMs: number): Promise<AmdMaker> {
  const times = { from: nowMs - 365 * dayMs, to: nowMs + 3_650 * dayMs }
  const maker = { algorithm: 'amd', authority: true, ...times } as const
  const ark = await makeSigner({ ...maker, subject: 'CN=ARK-Test, O=Test', issuer: null, serial: '10000' })
  const ask = await makeSigner({ ...maker, subject: 'CN=SEV-Test, O=Test', issuer: ark, serial: askSerial })
  const extensions = [
    derExtension(`${amd}.3.1`, integer(versions.bootloader)),
    derExtension(`${amd}.3.2`, integer(versions.tee)),
    derExtension(`${amd}.3.3`, integer(versions.snp)),
    derExtension(`${amd}.3.8`, integer(versions.microcode)),
    derExtension(`${amd}.4`, chip),
  ]
  const vcek = await makeSigner({
    ...{ subject: 'CN=SEV-VCEK, O=Test', issuer: ask, serial: '00', extensions },
    ...{ algorithm: 'processor', authority: false, ...times },
  })
  const { d = '' } = await crypto.subtle.exportKey('jwk', vcek.keys.privateKey)
  const secretKey = new Uint8Array(Buffer.from(d, 'base64url'))
  return {
    root: { line: 'Test', ark: ark.certificate.toString('pem'), ask: ask.certificate.toString('pem') },
    vcek: derOf(vcek),
    list: (revoked) => makeList(ark, revoked ? [askSerial] : [], nowMs),
    report: (wish) => signed(secretKey, wish),
  }
}

/** As the host's table has it: one certificate. */
export function hostTable(vcek: Uint8Array): Uint8Array {
  const table = Buffer.alloc(48 + vcek.length)
  table.set(Buffer.from('63da758de6644564adc5f4b93be8accd', 'hex'))
  table.writeUInt32LE(48, 16)
  table.writeUInt32LE(vcek.length, 20)
  table.set(vcek, 48)
  return new Uint8Array(table)
}
