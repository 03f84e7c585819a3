import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { nodeAlarmsMessage } from '../../protocol/signing/signatures.ts'
import { fieldsOf } from '../../protocol/verify/given.ts'
import { alarmsSentMax, type NodeAlarm } from '../../protocol/wire/nodes/alarms.ts'
import { isoTime } from '../../time.ts'
import type { Asking } from './payout-report.ts'

const answerTimeoutMs = 30_000
const answerBytesMax = 64 * 1024

/**
 * Tells the gateway what this node has found wrong, for the console of its owner (§36): the newest. Rejects where the gateway does not
 * take it; one of a version before has no such route, and is told nothing.
 */
export async function tellAlarms({ identity, gatewayUrl, nodeId }: Asking, all: readonly NodeAlarm[]): Promise<void> {
  const alarms = all.slice(-alarmsSentMax)
  const signedAt = isoTime(Date.now())
  const signature = identity.sign(nodeAlarmsMessage(nodeId, signedAt, alarms))
  const response = await fetch(`${gatewayUrl}/v1/nodes/${nodeId}/alarms`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ alarms, signed_at: signedAt, signature_ed25519: signature }),
    redirect: 'error',
    signal: AbortSignal.timeout(answerTimeoutMs),
  })
  const { code } = fieldsOf(await foreignAnswer(response, answerBytesMax))
  if (!response.ok && code !== 'route_not_found') throw new Error('not taken')
}
