import { Value } from '@sinclair/typebox/value'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { newNonce, payoutReportMessage } from '../../protocol/signing/signatures.ts'
import { NodePayoutReport } from '../../protocol/wire/money/money.ts'
import { isoTime } from '../../time.ts'

/** Whom a node asks, and as whom. */
export interface Asking {
  readonly identity: SigningKey
  readonly gatewayUrl: string
  readonly nodeId: string
}

const [windowDays, limit] = ['7', '500']
const answerTimeoutMs = 30_000
const answerBytesMax = 1024 * 1024

/** What this node has earned lately (endpoint 8). Rejects where the gateway does not answer as it should. */
export async function readPayouts({ identity, gatewayUrl, nodeId }: Asking): Promise<NodePayoutReport['payouts']> {
  const [signedAt, nonce] = [isoTime(Date.now()), newNonce()]
  const signature = identity.sign(payoutReportMessage({ nodeId, windowDays, limit, signedAt, nonce }))
  const query = new URLSearchParams({
    window_days: windowDays,
    limit,
    signed_at: signedAt,
    nonce,
    signature_ed25519: signature,
  })
  const signal = AbortSignal.timeout(answerTimeoutMs)
  const response = await fetch(`${gatewayUrl}/v1/nodes/${nodeId}/payouts?${query}`, { redirect: 'error', signal })
  const answer = await foreignAnswer(response, answerBytesMax)
  if (response.status !== 200 || !Value.Check(NodePayoutReport, answer)) throw new Error('no report')
  return answer.payouts
}
