import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { dayMs } from '../../../src/time.ts'
import { der, derExtension, derOf, makeList, makeSigner, oid, pemOf, type Signer, signedBy } from './makers.ts'

/** A maker of processors with TDX, and one processor of its: the published sample, signed anew by keys of the test. */
export interface IntelMaker {
  /** DER. */
  readonly root: Uint8Array
  quote(wish: TdxWish): Promise<Uint8Array>
  collateral(wish?: CollateralWish): Promise<Readonly<Record<string, string>>>
}

export interface TdxWish {
  readonly reportData: Uint8Array
  readonly debug?: boolean
  readonly mrTd?: Uint8Array
  /** Of the TDX module. */
  readonly mrSignerSeam?: Uint8Array
}

export interface CollateralWish {
  /** Revokes the processor's key, or the authority above it. */
  readonly revoked?: 'key' | 'authority'
  /** What Intel says of this firmware, of the quoting enclave, and of the TDX module. */
  readonly status?: string
  readonly enclave?: string
  readonly module?: string
  /**
   * The list of revoked processors comes from somebody else, is of an earlier time, or of the authority over another product, whose own
   * chain is beside it.
   */
  readonly lists?: 'forged' | 'old' | 'other product'
  /** The collateral is signed by the processor's key, whose chain leads to Intel, too. */
  readonly signedBy?: 'processor'
}

export const samples = join(import.meta.dir, '../../client/attestation/samples')
const sample = new Uint8Array(readFileSync(join(samples, 'tdx-quote.bin')))
const published = JSON.parse(readFileSync(join(samples, 'tdx-collateral.json'), 'utf8')) as Record<string, string>
/** Of the sample's quote: a header, then the report of the machine. */
const headerBytes = 48
const reportBytes = 584
const at = { mrSignerSeam: 64, tdAttributes: 120, mrTd: 136, reportData: 520 } as const
export const tdxMeasurement = sample.slice(headerBytes + at.mrTd, headerBytes + at.mrTd + 48)

const fmspc = Buffer.from('b0c06f000000', 'hex')
const sgx = '1.2.840.113741.1.13.1'
const names = 'O=Intel Corporation, L=Santa Clara, ST=CA, C=US'
const serials = { key: '0bad', authority: '0cad' } as const

const octets = (value: Uint8Array) => der(0x04, value)
const member = (id: string, value: Uint8Array) => der(0x30, oid(`${sgx}.${id}`), value)

/** Firmware that is as new as any list asks for. */
const sgxExtension = () =>
  derExtension(
    sgx,
    der(
      0x30,
      member(
        '2',
        der(
          0x30,
          member('2.17', der(0x02, Uint8Array.of(0x7f))),
          member('2.18', octets(new Uint8Array(16).fill(0x7f))),
        ),
      ),
      member('4', octets(fmspc)),
    ),
  )

const u16 = (value: number) => Uint8Array.of(value & 0xff, value >> 8)
const u32 = (value: number) => new Uint8Array(Uint32Array.of(value).buffer)

/** What the quoting enclave of Intel's puts beside its key: 32 bytes. */
const enclaveData = new Uint8Array(32).fill(0xe1)

/** The quoting enclave: its report names the key that signs quotes. */
function enclaveReport(attestationKey: Uint8Array): Uint8Array {
  const identity = JSON.parse(published.qe_identity ?? '') as { readonly mrsigner: string; readonly isvprodid: number }
  const report = Buffer.alloc(384)
  report[48] = 0x11
  report.set(Buffer.from(identity.mrsigner, 'hex'), 128)
  report.writeUInt16LE(identity.isvprodid, 256)
  report.writeUInt16LE(99, 258)
  report.set(createHash('sha256').update(attestationKey).update(enclaveData).digest(), 320)
  return new Uint8Array(report)
}

function machineReport({ reportData, debug = false, mrTd, mrSignerSeam }: TdxWish): Uint8Array {
  const report = sample.slice(headerBytes, headerBytes + reportBytes)
  report.set(reportData, at.reportData)
  if (debug) report[at.tdAttributes] = 1
  if (mrTd !== undefined) report.set(mrTd, at.mrTd)
  if (mrSignerSeam !== undefined) report.set(mrSignerSeam, at.mrSignerSeam)
  return report
}

async function pointOf({ keys }: Signer): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.exportKey('raw', keys.publicKey)).slice(1)
}

async function makeQuote(wish: TdxWish, parts: { quoting: Signer; pck: Signer; pem: string }): Promise<Uint8Array> {
  const { quoting, pck, pem } = parts
  const signed = Buffer.concat([sample.subarray(0, headerBytes), machineReport(wish)])
  const key = await pointOf(quoting)
  const enclave = enclaveReport(key)
  const chain = Buffer.from(pem)
  const certified = Buffer.concat([
    ...[enclave, await signedBy(pck, enclave), u16(enclaveData.length), enclaveData],
    ...[u16(5), u32(chain.length), chain],
  ])
  const data = Buffer.concat([...[await signedBy(quoting, signed), key], ...[u16(6), u32(certified.length), certified]])
  return new Uint8Array(Buffer.concat([signed, u32(data.length), data]))
}

/** A JSON of Intel's with other times, and a status where one is given. */
function retimed(text: string, nowMs: number, status?: string, module?: string): string {
  interface Levels {
    tcbLevels: { tcbStatus: string }[]
  }
  const value = JSON.parse(text) as Levels & { tdxModuleIdentities?: Levels[] } & Record<string, unknown>
  const iso = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`
  if (status !== undefined) for (const level of value.tcbLevels) level.tcbStatus = status
  const modules = module === undefined ? [] : (value.tdxModuleIdentities ?? [])
  for (const level of modules.flatMap(({ tcbLevels }) => tcbLevels)) level.tcbStatus = module ?? ''
  return JSON.stringify({ ...value, issueDate: iso(nowMs - dayMs), nextUpdate: iso(nowMs + 30 * dayMs) })
}

export async function makeIntel(nowMs: number): Promise<IntelMaker> {
  const times = { algorithm: 'intel', from: nowMs - 365 * dayMs, to: nowMs + 3_650 * dayMs } as const
  const authority = { ...times, authority: true }
  const leaf = { ...times, authority: false }
  const root = await makeSigner({
    ...authority,
    subject: `CN=Intel SGX Root CA, ${names}`,
    issuer: null,
    serial: '01',
  })
  const below = { issuer: root } as const
  const platform = await makeSigner({
    ...{ ...authority, ...below },
    ...{ subject: `CN=Intel SGX PCK Platform CA, ${names}`, serial: serials.authority },
  })
  const signing = await makeSigner({
    ...{ ...leaf, ...below },
    ...{ subject: `CN=Intel SGX TCB Signing, ${names}`, serial: '02' },
  })
  const pck = await makeSigner({
    ...{ ...leaf, issuer: platform, serial: serials.key },
    ...{ subject: `CN=Intel SGX PCK Certificate, ${names}`, extensions: [sgxExtension()] },
  })
  const quoting = await makeSigner({ ...leaf, subject: 'CN=Quoting', issuer: null, serial: '03' })
  const stranger = await makeSigner({ ...authority, subject: platform.certificate.subject, issuer: null, serial: '04' })
  const processors = await makeSigner({
    ...{ ...authority, ...below },
    ...{ subject: `CN=Intel SGX PCK Processor CA, ${names}`, serial: '05' },
  })
  const listers = { forged: stranger, 'other product': processors } as const
  const pem = pemOf(pck, platform, root)
  return {
    root: derOf(root),
    quote: (wish) => makeQuote(wish, { quoting, pck, pem }),
    collateral: async ({ revoked, status, enclave: enclaveStatus, module, lists, signedBy: by } = {}) => {
      const [signer, chain] = by === 'processor' ? [pck, pem] : [signing, pemOf(signing, root)]
      const tcb = retimed(published.tcb_info ?? '', nowMs, status, module)
      const enclave = retimed(published.qe_identity ?? '', nowMs, enclaveStatus)
      const listedMs = lists === 'old' ? nowMs - 90 * dayMs : nowMs
      const issuer = lists === undefined || lists === 'old' ? platform : listers[lists]
      const hex = async (bytes: Promise<Uint8Array>) => (await bytes).toHex()
      return {
        tcb_info: tcb,
        tcb_info_issuer_chain: chain,
        tcb_info_signature: await hex(signedBy(signer, Buffer.from(tcb))),
        qe_identity: enclave,
        qe_identity_issuer_chain: chain,
        qe_identity_signature: await hex(signedBy(signer, Buffer.from(enclave))),
        pck_crl_issuer_chain: pemOf(lists === 'other product' ? processors : platform, root),
        root_ca_crl: await hex(makeList(root, revoked === 'authority' ? [serials.authority] : [], nowMs)),
        pck_crl: await hex(makeList(issuer, revoked === 'key' ? [serials.key] : [], listedMs)),
      }
    },
  }
}
