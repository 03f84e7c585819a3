import { headers } from '../../brand.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { copyMessage, newNonce } from '../../protocol/signing/signatures.ts'
import { secondMs } from '../../time.ts'

/** The gateway, as the place that models of other nodes come from. */
export interface CopyGateway {
  /** Without a slash at the end. */
  readonly url: string
  /** By which this node shows that it is the one for which the ticket was made. */
  credentials(url: URL, ticket: string): Readonly<Record<string, string>>
}

export function createCopyGateway(url: string, nodeId: string, identity: SigningKey): CopyGateway {
  const before = new URL(url).pathname.replace(/\/$/, '').length
  return {
    url,
    credentials: ({ pathname }, ticket) => {
      const timestamp = Math.floor(Date.now() / secondMs)
      const nonce = newNonce()
      return {
        [headers.nodeId]: nodeId,
        [headers.nodeTimestamp]: String(timestamp),
        [headers.nodeNonce]: nonce,
        [headers.nodeSignature]: identity.sign(copyMessage(nodeId, timestamp, nonce, pathname.slice(before), ticket)),
        [headers.copyTicket]: ticket,
      }
    },
  }
}
