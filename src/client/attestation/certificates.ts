// The library keeps its own registry by this polyfill, which must come before it.
import 'reflect-metadata'
import { BasicConstraintsExtension, KeyUsageFlags, KeyUsagesExtension, X509Certificate, X509Crl } from '@peculiar/x509'

/** X.509 as makers of processors use it: short chains to one pinned root, and lists of what is revoked. */

/** Intel's and AMD's chains have three. */
const chainMax = 5
const pemPattern = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g

export type { X509Certificate, X509Crl } from '@peculiar/x509'

/** null: the bytes are no certificate. */
export function readCertificate(bytes: Uint8Array | string): X509Certificate | null {
  try {
    const certificate = new X509Certificate(typeof bytes === 'string' ? bytes : (bytes as Uint8Array<ArrayBuffer>))
    // The library reads each part when it is first asked for, and takes extensions that it cannot read for none the second time.
    const { extensions, subject, issuer, notBefore, notAfter, publicKey, serialNumber } = certificate
    return [extensions, subject, issuer, notBefore, notAfter, publicKey, serialNumber].includes(undefined as never)
      ? null
      : certificate
  } catch {
    return null
  }
}

/** Of a text in PEM, leaf first; null: it has none, too many, or one that cannot be read. No more is read than may be there. */
export function readChain(pem: string): readonly X509Certificate[] | null {
  const chain: X509Certificate[] = []
  for (const [text] of pem.matchAll(pemPattern)) {
    const certificate = chain.length < chainMax ? readCertificate(text) : null
    if (certificate === null) return null
    chain.push(certificate)
  }
  return chain.length === 0 ? null : chain
}

export function readRevocations(bytes: Uint8Array): X509Crl | null {
  try {
    const list = new X509Crl(bytes as Uint8Array<ArrayBuffer>)
    const { entries, issuer, thisUpdate } = list
    return [entries, issuer, thisUpdate].includes(undefined as never) ? null : list
  } catch {
    return null
  }
}

export const isSame = (a: X509Certificate, b: X509Certificate): boolean => a.equal(b)

function isInTime({ notBefore, notAfter }: X509Certificate, nowMs: number): boolean {
  return notBefore.getTime() <= nowMs && nowMs <= notAfter.getTime()
}

/** Whether it may sign what stands `below` certificates above the end of the chain. */
function mayIssue(certificate: X509Certificate, below: number, usage: KeyUsageFlags): boolean {
  const constraints = certificate.getExtension(BasicConstraintsExtension)
  const usages = certificate.getExtension(KeyUsagesExtension)
  if (constraints?.ca !== true || (usages !== null && (usages.usages & usage) === 0)) return false
  return constraints.pathLength === undefined || constraints.pathLength >= below
}

/** Rejects for nothing: a signature that cannot be checked does not hold. */
const holds = (checked: Promise<boolean>): Promise<boolean> => checked.catch(() => false)

/**
 * Why the chain, leaf first, does not lead to this root at this time; null: it does. The root itself may stand at its end. A leaf is no
 * authority.
 */
export async function chainFault(
  chain: readonly X509Certificate[],
  root: X509Certificate,
  nowMs: number,
): Promise<string | null> {
  const last = chain.at(-1)
  const all = last !== undefined && isSame(last, root) ? chain : [...chain, root]
  const [leaf] = all
  if (leaf === undefined || all.length < 2) return 'there is no certificate below the root'
  if (leaf.getExtension(BasicConstraintsExtension)?.ca === true) return 'the last certificate is an authority'
  for (const [at, certificate] of all.entries()) {
    const issuer = all[at + 1] ?? root
    if (!isInTime(certificate, nowMs)) return `a certificate is expired or not yet valid (${certificate.subject})`
    if (certificate.issuer !== issuer.subject) return `${certificate.subject} names another issuer`
    if (!mayIssue(issuer, Math.min(at, all.length - 2), KeyUsageFlags.keyCertSign)) {
      return `${issuer.subject} may not sign certificates`
    }
    const signed = issuer.publicKey
    if (!(await holds(certificate.verify({ publicKey: signed, signatureOnly: true })))) {
      return `${certificate.subject} is not signed by its issuer`
    }
  }
  return null
}

/** Why a list of revoked certificates does not count; null: its issuer has signed it, and it is of this time. */
export async function listFault(list: X509Crl, issuer: X509Certificate, nowMs: number): Promise<string | null> {
  if (list.issuer !== issuer.subject) return 'the list of revoked certificates names another issuer'
  const usages = issuer.getExtension(KeyUsagesExtension)
  if (usages !== null && (usages.usages & KeyUsageFlags.cRLSign) === 0) return 'its issuer may not sign lists'
  if (!(await holds(list.verify({ publicKey: issuer.publicKey })))) {
    return 'the list of revoked certificates is not signed by its issuer'
  }
  // A time that cannot be read is no number, and fits nothing.
  if (!(list.thisUpdate.getTime() <= nowMs)) return 'the list of revoked certificates is from the future'
  const isCurrent = list.nextUpdate !== undefined && nowMs <= list.nextUpdate.getTime()
  return isCurrent ? null : 'the list of revoked certificates is expired'
}

const serialOf = (text: string) => text.toLowerCase().replace(/^0+(?=.)/, '')

export function isRevoked(list: X509Crl, certificate: X509Certificate): boolean {
  const serial = serialOf(certificate.serialNumber)
  return list.entries.some((entry) => serialOf(entry.serialNumber) === serial)
}
