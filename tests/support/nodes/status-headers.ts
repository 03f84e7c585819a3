import { headers } from '../../../src/brand.ts'
import { newNonce } from '../../../src/protocol/signing/signatures.ts'
import { anyStatusMembers } from '../../../src/protocol/wire/nodes/agent.ts'

/** What a gateway of this version sends when it asks an agent for its status. */
export const statusHeaders = (nonce = newNonce()) => ({
  [headers.statusNonce]: nonce,
  [headers.statusMembers]: anyStatusMembers,
})
