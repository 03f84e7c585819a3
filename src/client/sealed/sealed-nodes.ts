import { ed25519 } from '@noble/curves/ed25519.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import { clientIdPattern } from '../../ids.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { publicKeyOf, sealedKeyMessage } from '../../protocol/sealed/sealed-key.ts'
import { decodeBase64Url } from '../../protocol/signing/base64.ts'
import { identityFingerprint } from '../../protocol/signing/identity-fingerprint.ts'
import type { SealedNode } from '../../protocol/wire/inference/sealed.ts'
import type { SealedKey } from '../../protocol/wire/nodes/sealed-key.ts'
import { gatewayRefusal, SealedError } from './sealed-error.ts'

/** A gateway's answer to the question for nodes, bytes; with the evidence of machines it is longer. */
const listBytesMax = 1024 * 1024
const evidenceBytesMax = 4 * 1024 * 1024
const refusalBytesMax = 64 * 1024

/** A node to which a request may be sealed: its identity is trusted, and it has signed the key. */
export interface TrustedNode {
  readonly nodeId: string
  readonly fingerprint: string
  readonly publicKey: Uint8Array
}

/** Which identities are trusted, besides those that were named. */
export interface Pins {
  /** Asked before anything is sealed for this node. False: it is not trusted, and nothing goes to it. */
  trusts(nodeId: string, fingerprint: string): boolean
}

/** Ids of nodes stand in paths and on terminals. The form of the rest is checked where it is used: each key by its signature. */
function readNodes(value: unknown): readonly SealedNode[] | null {
  const { data } = (value ?? {}) as { readonly data?: unknown }
  if (!Array.isArray(data)) return null
  const isNode = (node: Partial<SealedNode> | null) =>
    typeof node?.node_id === 'string' &&
    clientIdPattern.test(node.node_id) &&
    typeof node.identity_public_key_ed25519 === 'string' &&
    Array.isArray(node.keys)
  return data.filter(isNode) as readonly SealedNode[]
}

export async function askNodes(response: Response, withEvidence = false): Promise<readonly SealedNode[]> {
  if (response.status !== 200) {
    const refusal = gatewayRefusal(await foreignAnswer(response, refusalBytesMax))
    throw new SealedError('gateway_failed', response.status, refusal)
  }
  const nodes = readNodes(await foreignAnswer(response, withEvidence ? evidenceBytesMax : listBytesMax))
  if (nodes === null) throw new SealedError('gateway_failed', response.status)
  return nodes
}

/** In their order. Throws why none is trusted. */
export function trustedNodes(nodes: readonly SealedNode[], pins: Pins, nowMs: number): readonly TrustedNode[] {
  let fault: SealedError | null = null
  const trusted: TrustedNode[] = []
  for (const node of nodes) {
    const found = trustedNode(node, pins, nowMs)
    if (found instanceof SealedError) fault ??= found
    else trusted.push(found)
  }
  if (trusted.length === 0) throw fault ?? new SealedError('no_node')
  return trusted
}

function trustedNode(node: SealedNode, pins: Pins, nowMs: number): TrustedNode | SealedError {
  const fingerprint = identityFingerprint(node.identity_public_key_ed25519)
  const identity = decodeBase64Url(node.identity_public_key_ed25519)
  if (fingerprint === null || identity === null) return new SealedError('node_not_pinned')
  if (!pins.trusts(node.node_id, fingerprint)) return new SealedError('node_not_pinned')
  const inUse = node.keys.filter((key) => isInUse(key, nowMs))
  if (inUse.length === 0) return new SealedError('no_key_in_use')
  if (!inUse.every((key) => isSigned(key, identity))) return new SealedError('key_not_signed')
  const [newest] = [...inUse].sort((a, b) => Date.parse(b.not_before) - Date.parse(a.not_before))
  const publicKey = newest === undefined ? null : publicKeyOf(newest)
  return publicKey === null ? new SealedError('key_not_signed') : { nodeId: node.node_id, fingerprint, publicKey }
}

const isInUse = ({ state, not_before, not_after }: SealedKey, nowMs: number) =>
  state === 'active' && Date.parse(not_before) <= nowMs && nowMs < Date.parse(not_after)

function isSigned(key: SealedKey, identity: Uint8Array): boolean {
  const signature = decodeBase64Url(String(key.signature_ed25519).replace(/=+$/, ''))
  if (signature === null || publicKeyOf(key) === null) return false
  try {
    // The default also accepts keys of small order, for which one signature fits every message.
    return ed25519.verify(signature, utf8ToBytes(sealedKeyMessage(key)), identity, { zip215: false })
  } catch {
    return false
  }
}
