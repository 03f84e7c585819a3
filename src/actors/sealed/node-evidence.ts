import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { attestationBytesMax, attestationPath } from '../../protocol/attestation/evidence.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import type { SealedNode } from '../../protocol/wire/inference/sealed.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'

/** Of one list, the first nodes are asked what runs on them. */
const evidenceNodesMax = 8
/** Timeout for a node's evidence, ms. The hardware makes one at a time, so a request may queue. */
const evidenceMsMax = 20_000
/** Questions that all clients of this process have at a time; each may bring `attestationBytesMax`. */
const questionsMax = 64
const busyRetrySeconds = 1

/** Asks nodes for the evidence of their machines. The gateway carries it and understands nothing of it: only a client can judge it (§38). */
export class NodeEvidence {
  private running = 0

  constructor(private readonly router: { transport(nodeId: NodeId): NodeTransport | null }) {}

  /** The nodes with their evidence; a node that misses the timeout has none. Throws `capacity_exhausted`. */
  async added(nodes: readonly SealedNode[], nonce: string, signal: AbortSignal): Promise<SealedNode[]> {
    const asked = Math.min(nodes.length, evidenceNodesMax)
    if (this.running + asked > questionsMax) {
      throw new Problem('capacity_exhausted', { retryAfterSeconds: busyRetrySeconds })
    }
    this.running += asked
    try {
      return await Promise.all(
        nodes.map(async (node, at) => {
          const attestation = at < evidenceNodesMax ? await this.ask(node.node_id as NodeId, nonce, signal) : null
          return attestation === null ? node : { ...node, attestation }
        }),
      )
    } finally {
      this.running -= asked
    }
  }

  private async ask(nodeId: NodeId, nonce: string, signal: AbortSignal): Promise<object | null> {
    const transport = this.router.transport(nodeId)
    if (transport === null || signal.aborted) return null
    const ending = new CallSignal()
    const leave = () => ending.abort()
    signal.addEventListener('abort', leave, { once: true })
    const late = setTimeout(leave, evidenceMsMax)
    try {
      const response = await transport.fetch(`${attestationPath}/${nonce}`, { method: 'GET', signal: ending })
      const text = await response.text(attestationBytesMax)
      const value = response.status === 200 ? foreignJson(text) : null
      return isObject(value) ? value : null
    } catch {
      // A node that cannot be asked shows nothing. What that means is the client's to decide.
      return null
    } finally {
      clearTimeout(late)
      signal.removeEventListener('abort', leave)
    }
  }
}
