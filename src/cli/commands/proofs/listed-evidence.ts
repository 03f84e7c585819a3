import { attestationObject } from '../../../protocol/attestation/evidence.ts'
import { identityFingerprint } from '../../../protocol/signing/identity-fingerprint.ts'
import { type Fields, fieldsOf, listOf, textOf } from '../../../protocol/verify/given.ts'
import { type Check, check, type Verdict, verdict } from '../../../protocol/verify/trust.ts'

/** What a file shows of one computer. */
export interface Shown {
  /** As the gateway lists it; null: the file has the evidence alone. */
  readonly node: Fields | null
  readonly evidence: unknown
}

const nodesMax = 64

/** One node's evidence, or each node of a list as `GET /v1/sealed/nodes?nonce=…` answers, also those that show nothing. */
export function shownIn(value: unknown): readonly Shown[] {
  const given = fieldsOf(value)
  if (given.object === attestationObject) return [{ node: null, evidence: given }]
  return listOf(given.data)
    .slice(0, nodesMax)
    .map(fieldsOf)
    .filter(({ node_id: id }) => textOf(id) !== null)
    .map((node) => ({ node, evidence: node.attestation }))
}

export const fingerprintOf = (node: Fields): string | null =>
  identityFingerprint(textOf(node.identity_public_key_ed25519) ?? '')

/** The evidence is about the identity and a key that requests for this node are sealed to. */
function listedCheck(node: Fields, evidence: Fields): Check {
  const keys = listOf(node.keys).map(fieldsOf)
  const isSame =
    evidence.identity_public_key_ed25519 === node.identity_public_key_ed25519 &&
    keys.some(({ key_config: config, state }) => config === evidence.key_config && state === 'active')
  return check('node', isSame, isSame ? 'the list gives it this identity and this key' : 'the list gives it others')
}

/** The verdict on the evidence as one on the node that the gateway lists with it. */
export function verdictOn({ node, evidence }: Shown, judged: Verdict): Verdict {
  if (node === null) return judged
  const name = textOf(node.node_id) ?? ''
  if (evidence === undefined || evidence === null) {
    return verdict('attestation', name, [check('evidence', false, 'it shows nothing of its computer')], null)
  }
  const checks = [listedCheck(node, fieldsOf(evidence)), ...judged.checks]
  return verdict('attestation', `${name} ${judged.subject}`.trim(), checks, null)
}
