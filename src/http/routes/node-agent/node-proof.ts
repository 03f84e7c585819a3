import type { NodeProof } from '../../../actors/agents/node-proofs.ts'
import type { GatewayHandle } from '../../../actors/gateway-handle.ts'
import { headers } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { isNonce } from '../../../protocol/signing/signatures.ts'
import { refusedLogin } from '../../frame/refused-login.ts'

const forms = {
  [headers.nodeId]: (text: string) => /^[A-Za-z0-9_-]{1,64}$/.test(text),
  [headers.nodeTimestamp]: (text: string) => /^[0-9]{1,12}$/.test(text),
  [headers.nodeNonce]: isNonce,
  [headers.nodeSignature]: (text: string) => /^[A-Za-z0-9_-]{86}={0,2}$/.test(text),
}

/** The scheme of the OpenAPI document for what `proofOf` reads. */
export const nodeProofSecurity = [{ NodeId: [], NodeTimestamp: [], NodeNonce: [], NodeSignature: [] }]

/**
 * By which a node says that it is itself. `message`: what it signs, from its id, the time in Unix seconds and the nonce. Throws
 * `missing_credentials` and `signature_malformed`.
 */
export function proofOf(
  request: Request,
  message: (nodeId: string, timestamp: number, nonce: string) => string,
): NodeProof {
  const value = (name: keyof typeof forms) => {
    const text = request.headers.get(name)
    const param = `header.${name}`
    if (text === null) throw new Problem('missing_credentials', { param })
    if (forms[name]?.(text) !== true) throw new Problem('signature_malformed', { param })
    return text
  }
  const nodeId = value(headers.nodeId)
  const timestamp = Number(value(headers.nodeTimestamp))
  const nonce = value(headers.nodeNonce)
  const signature = value(headers.nodeSignature)
  return { nodeId, timestamp, nonce, signature, message: message(nodeId, timestamp, nonce) }
}

/** Rejects as the work does; a signature that does not hold counts against the address that sent it. */
export const provedBy = <T>(gateway: GatewayHandle, address: string, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    const guess = error instanceof Problem && error.code === 'signature_invalid'
    throw guess ? refusedLogin(gateway, address, error) : error
  })
