import { bytesToHex, randomBytes } from '@noble/hashes/utils.js'
import { attestationNonceBytes, type ExpectedEvidence } from '../../protocol/attestation/evidence.ts'
import { keyConfigOf } from '../../protocol/sealed/key-config.ts'
import type { Verdict } from '../../protocol/verify/trust.ts'
import type { SealedNode } from '../../protocol/wire/inference/sealed.ts'
import type { TrustedNode } from './sealed-nodes.ts'

/** Judges what a node shows of its machine. The judges of TDX and SEV-SNP are in the package's `./attestation`. */
export interface NodeJudge {
  /** How long a good verdict on one key of a node holds, s. */
  readonly freshSeconds: number
  judge(evidence: unknown, expected: ExpectedEvidence): Promise<Verdict>
  /** Told each new verdict. */
  readonly onVerdict?: (node: TrustedNode, verdict: Verdict) => void
}

/** A node that shows nothing, or something that is not allowed, is asked again after this, ms. */
const badMs = 10_000
const verdictsMax = 1_024

/** Which nodes have shown a machine that the policy allows, each for the key that it has now. */
export class AttestedNodes {
  /** Oldest first. */
  private readonly verdicts = new Map<string, { readonly good: boolean; readonly untilMs: number }>()

  constructor(private readonly judge: NodeJudge) {}

  /** Those on which there is no verdict now. */
  unknown(nodes: readonly TrustedNode[], nowMs: number): readonly TrustedNode[] {
    return nodes.filter((node) => this.verdictOn(node, nowMs) === null)
  }

  /** In their order. */
  good(nodes: readonly TrustedNode[], nowMs: number): readonly TrustedNode[] {
    return nodes.filter((node) => this.verdictOn(node, nowMs) === true)
  }

  private verdictOn(node: TrustedNode, nowMs: number): boolean | null {
    const verdict = this.verdicts.get(keyOf(node))
    return verdict !== undefined && nowMs < verdict.untilMs ? verdict.good : null
  }

  /** What the gateway carried for this nonce. A node of which nothing came is not good, unless an earlier verdict on it holds. */
  async judged(
    nodes: readonly TrustedNode[],
    carried: readonly SealedNode[],
    nonce: Uint8Array,
    nowMs: number,
  ): Promise<void> {
    for (const node of this.unknown(nodes, nowMs)) {
      const evidence = carried.find(({ node_id }) => node_id === node.nodeId)?.attestation
      const { fingerprint, publicKey } = node
      const verdict = await this.judge.judge(evidence, { fingerprint, keyConfig: keyConfigOf(publicKey), nonce })
      this.judge.onVerdict?.(node, verdict)
      this.keep(keyOf(node), verdict.valid, nowMs)
    }
  }

  private keep(key: string, good: boolean, nowMs: number): void {
    this.verdicts.delete(key)
    const [oldest] = this.verdicts.keys()
    if (this.verdicts.size >= verdictsMax && oldest !== undefined) this.verdicts.delete(oldest)
    this.verdicts.set(key, { good, untilMs: nowMs + (good ? this.judge.freshSeconds * 1_000 : badMs) })
  }
}

/** Another key, or another identity, is another question. */
const keyOf = ({ nodeId, fingerprint, publicKey }: TrustedNode) => `${nodeId} ${fingerprint} ${bytesToHex(publicKey)}`

export const newNonce = (): Uint8Array => randomBytes(attestationNonceBytes)
