import type { NodeJudge } from '../sealed/attested-nodes.ts'
import { type JudgeOptions, judgeEvidence } from './judge.ts'

// What a program needs to judge by itself: this module is the package's `./attestation`.
export { type JudgeOptions, judgeEvidence } from './judge.ts'
export { type MeasurementPolicy, MeasurementPolicyFault, parseMeasurementPolicy } from './measurement-policy.ts'

/** For `sealedFetch({ attest: nodeJudge({ policy }) })`. In Bun and Node. */
export function nodeJudge(options: JudgeOptions & Pick<NodeJudge, 'onVerdict'>): NodeJudge {
  const { onVerdict } = options
  return {
    freshSeconds: options.policy.freshSeconds,
    judge: (evidence, expected) => judgeEvidence(evidence, expected, options),
    ...(onVerdict === undefined ? {} : { onVerdict }),
  }
}
