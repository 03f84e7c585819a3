import { descriptors } from '../../host/descriptors.ts'
import type { TransportFailure } from '../transport.ts'

const failureByCode: Readonly<Record<string, TransportFailure>> = {
  ECONNREFUSED: 'refused',
  // A Unix socket that is gone.
  ENOENT: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'timeout',
}
const tlsCode = /CERT|SSL|TLS|SIGNATURE|ISSUER|EPROTO/

export function failureOf(error: unknown): TransportFailure {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'closed'
  // Bun says so of a socket that it could not even make (seen on 1.4.5).
  if (code === 'ECONNREFUSED' && descriptors.exhausted()) return 'exhausted'
  return failureByCode[code] ?? (tlsCode.test(code) ? 'tls' : 'closed')
}
