import { Value } from '@sinclair/typebox/value'
import { type Loop, loop } from '../../host/loop.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { newNonce, payoutReportMessage } from '../../protocol/signing/signatures.ts'
import { NodePayoutReport } from '../../protocol/wire/money/money.ts'
import { isoTime, minuteMs } from '../../time.ts'
import type { Alarms } from './alarms.ts'
import { readOwnPayee } from './payee.ts'

export interface PayeeWatchOptions {
  readonly folder: PrivateFolder
  readonly identity: SigningKey
  readonly gatewayUrl: string
  readonly nodeId: string
  readonly alarms: Alarms
  readonly log: Log
  /** Between two looks, ms. */
  readonly everyMs?: number
}

/** Looks whether what the node earns goes where it said (§36). */
export interface PayeeWatch extends Pick<Loop, 'start' | 'stop'> {
  /** One look. Rejects where the gateway does not answer as it should. */
  look(): Promise<void>
}

const everyMsDefault = 10 * minuteMs
/** Work that was under way when the node stated another payee may be earned by the one before. */
const underWayMs = minuteMs
const [windowDays, limit] = ['7', '500']
const answerTimeoutMs = 30_000
const answerBytesMax = 1024 * 1024

export function createPayeeWatch(options: PayeeWatchOptions): PayeeWatch {
  const { folder, identity, gatewayUrl, nodeId, alarms, log, everyMs = everyMsDefault } = options

  const report = async (): Promise<NodePayoutReport> => {
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
    return answer
  }

  const look = async () => {
    const own = readOwnPayee(folder)
    if (own === null) return
    const sinceMs = Date.parse(own.signedAt) + underWayMs
    for (const { entry_id: entryId, payee, created_at: createdAt } of (await report()).payouts) {
      const elsewhere = payee?.toLowerCase() !== own.payee
      if (elsewhere && Date.parse(createdAt) >= sinceMs) alarms.raise('payee_changed', entryId)
    }
  }

  const looking = loop({
    pauseMs: everyMs,
    run: look,
    onFailure: (error) => log.warn('payee_not_looked_at', { failure: failureName(error) }),
  })
  return { look, start: () => looking.start(), stop: () => looking.stop() }
}
