import { generateKeyPairSync, sign } from 'node:crypto'

export interface ServerCertificate {
  /** PEM; trusted by who is given it as the authority. */
  readonly cert: string
  readonly key: string
}

const oid = { ecdsaWithSha256: '2a8648ce3d040302', commonName: '550403', altName: '551d11', constraints: '551d13' }
const dayMs = 86_400_000

/** Tag, length, value (X.690). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const value = Buffer.concat(parts)
  const { length } = value
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), value])
}

const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts)
const identifier = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const octets = (value: Uint8Array) => der(0x04, value)
const bits = (value: Uint8Array) => der(0x03, Buffer.of(0), value)
const utcTime = (ms: number) => {
  const text = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14)
  return der(0x17, Buffer.from(`${text}Z`))
}
const pem = (bytes: Uint8Array) => {
  const lines =
    Buffer.from(bytes)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** A certificate for one name, signed by its own key, good from yesterday for a month (RFC 5280). */
export function makeCertificate(hostname: string): ServerCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(identifier(oid.ecdsaWithSha256))
  const name = sequence(der(0x31, sequence(identifier(oid.commonName), der(0x0c, Buffer.from(hostname)))))
  const now = Date.now()
  const extensions = sequence(
    sequence(identifier(oid.altName), octets(sequence(der(0x82, Buffer.from(hostname))))),
    sequence(identifier(oid.constraints), octets(sequence(der(0x01, Buffer.of(0xff))))),
  )
  const facts = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.of(1)),
    algorithm,
    name,
    sequence(utcTime(now - dayMs), utcTime(now + 30 * dayMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const certificate = sequence(facts, algorithm, bits(sign('sha256', facts, privateKey)))
  return { cert: pem(certificate), key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() }
}
