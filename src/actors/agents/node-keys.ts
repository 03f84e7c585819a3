import { tokenPrefixes } from '../../brand.ts'
import type { Database } from '../../db/client.ts'
import { getNode } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import type { AccessDirectory } from '../accounts/access-directory.ts'
import type { NodeProof, NodeProofs } from './node-proofs.ts'

/**
 * Answers a node that somebody on its own computer has shown a gateway key (§12, credential 4): whether this key may
 * use `model` there. Only keys of the owner may, if their node scope and model policy allow it.
 */
export type VerifyNodeKey = (proof: NodeProof, gatewayKey: string, model: string) => Promise<boolean>

export interface NodeKeysOptions {
  readonly db: Database
  readonly access: AccessDirectory
  readonly proofs: NodeProofs
  /** The pool's lookup of all names of a model, with its aliases. */
  readonly router: { namesOf(model: string): readonly string[] }
}

/** Refuses with `signature_expired`, `signature_invalid` or `nonce_reused`. */
export function createNodeKeys({ db, access, proofs, router }: NodeKeysOptions): VerifyNodeKey {
  return async (proof, gatewayKey, model) => {
    const fault = await proofs.check(proof)
    if (fault !== null) throw new Problem(fault)
    const node = await getNode(db, proof.nodeId)
    if (node === null || node.adminState === 'revoked') throw new Problem('signature_invalid')
    if (!gatewayKey.startsWith(tokenPrefixes.gateway)) return false
    const known = await access.gatewayKey(gatewayKey)
    if (known === null || known.customerId !== node.customerId || known.accountStatus !== 'active') return false
    const { nodeScope, routeTiers, allows, sealedOnly } = known.policy
    const inScope = nodeScope === null || nodeScope.has(node.nodeId)
    const inTier = routeTiers === null || routeTiers.has(node.nodeClass)
    return !sealedOnly && inScope && inTier && allows(router.namesOf(model))
  }
}
