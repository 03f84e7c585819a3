import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  type X509Certificate,
  X509CertificateGenerator,
  X509CrlGenerator,
} from '@peculiar/x509'
import { dayMs } from '../../../src/time.ts'

/** Makers of processors that a test plays: keys, certificates and lists of what they have revoked. */
export interface Signer {
  readonly certificate: X509Certificate
  readonly keys: CryptoKeyPair
  readonly algorithm: SigningAlgorithm
}

export type SigningAlgorithm = 'intel' | 'amd' | 'processor'

const algorithms = {
  intel: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  processor: { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' },
  amd: {
    name: 'RSA-PSS',
    hash: 'SHA-384',
    saltLength: 48,
    modulusLength: 2_048,
    publicExponent: new Uint8Array([1, 0, 1]),
  },
} as const

export interface CertificateWish {
  readonly subject: string
  /** null: it signs itself. */
  readonly issuer: Signer | null
  readonly algorithm: SigningAlgorithm
  readonly authority: boolean
  readonly serial: string
  readonly extensions?: readonly Extension[]
  /** Unix ms. */
  readonly from: number
  readonly to: number
}

export const derExtension = (oid: string, value: Uint8Array) =>
  new Extension(oid, false, value as Uint8Array<ArrayBuffer>)

export async function makeSigner(wish: CertificateWish): Promise<Signer> {
  const { subject, issuer, algorithm, authority, serial, extensions = [], from, to } = wish
  const keys = (await crypto.subtle.generateKey(algorithms[algorithm], true, ['sign', 'verify'])) as CryptoKeyPair
  const usage = authority ? KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign : KeyUsageFlags.digitalSignature
  const certificate = await X509CertificateGenerator.create({
    serialNumber: serial,
    subject,
    issuer: issuer?.certificate.subject ?? subject,
    notBefore: new Date(from),
    notAfter: new Date(to),
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
    signingAlgorithm: algorithms[issuer?.algorithm ?? algorithm],
    extensions: [
      new BasicConstraintsExtension(authority, undefined, true),
      new KeyUsagesExtension(usage, true),
      ...extensions,
    ],
  })
  return { certificate, keys, algorithm }
}

/** DER. `revoked`: serial numbers, hex. */
export async function makeList(issuer: Signer, revoked: readonly string[], nowMs: number): Promise<Uint8Array> {
  const list = await X509CrlGenerator.create({
    issuer: issuer.certificate.subject,
    thisUpdate: new Date(nowMs - dayMs),
    nextUpdate: new Date(nowMs + 30 * dayMs),
    entries: revoked.map((serialNumber) => ({ serialNumber, revocationDate: new Date(nowMs - dayMs) })),
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: algorithms[issuer.algorithm],
  })
  return new Uint8Array(list.rawData)
}

export async function signedBy(signer: Signer, bytes: Uint8Array): Promise<Uint8Array> {
  const signed = bytes as Uint8Array<ArrayBuffer>
  return new Uint8Array(await crypto.subtle.sign(algorithms[signer.algorithm], signer.keys.privateKey, signed))
}

export const derOf = ({ certificate }: Signer) => new Uint8Array(certificate.rawData)
export const pemOf = (...signers: readonly Signer[]) =>
  signers.map(({ certificate }) => `${certificate.toString('pem')}\n`).join('')

/** Tag, length, value (X.690), for lengths below 65,536. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const value = Buffer.concat(parts)
  const { length } = value
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), value])
}

const base128 = (value: number): readonly number[] => {
  const low = [value & 0x7f]
  for (let rest = value >> 7; rest > 0; rest >>= 7) low.unshift((rest & 0x7f) | 0x80)
  return low
}

export function oid(text: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  return der(0x06, Uint8Array.from([first * 40 + second, ...rest.flatMap(base128)]))
}
