import { type Static, Type } from '@sinclair/typebox'
import { SealedKey, sealedKeysMax } from '../nodes/sealed-key.ts'
import { id } from '../shapes.ts'

/** A node to which its owner can seal a request. Clients compare the identity with what the node itself prints. */
export const SealedNode = Type.Object({
  node_id: id,
  identity_public_key_ed25519: Type.String(),
  fingerprint: Type.String({ description: '`SHA256:` and the hash of the identity, as the node prints it' }),
  keys: Type.Array(SealedKey, { maxItems: sealedKeysMax }),
  attestation: Type.Optional(
    Type.Unknown({
      description:
        'With `nonce`, of nodes that attest: what their hardware has signed. The gateway passes it on and does not look into it',
    }),
  ),
})
export type SealedNode = Static<typeof SealedNode>

export const SealedNodeList = Type.Object({ object: Type.Literal('list'), data: Type.Array(SealedNode) })
export type SealedNodeList = Static<typeof SealedNodeList>

/** Below `/v1/sealed/nodes/{node_id}`, and which operation each is. */
export const sealedOperationPaths = [
  '/chat/completions',
  '/completions',
  '/embeddings',
  '/responses',
  '/messages',
] as const
export const sealedNodesPath = '/v1/sealed/nodes'
