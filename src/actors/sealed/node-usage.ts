import { type TokenUsage, tokenCount } from '../../protocol/chat/token-usage.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { type SealedUsage, sealedUsagePath } from '../../protocol/wire/nodes/sealed-usage.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'

/** A node that has answered keeps the record: it comes at once, or not at all. */
const usageMsMax = 2_000
/** An aborted call may end at the node a moment after the question. */
const asksMax = 3
const againMs = 150
const usageBytesMax = 16 * 1024

export interface ReportedUsage {
  readonly usage: TokenUsage
  readonly estimated: boolean
  /** With the receipt, unchecked. */
  readonly svc: SealedUsage
}

/** What the node says that a call used; null where it says nothing usable in time. */
export async function askUsage(transport: NodeTransport, callId: string): Promise<ReportedUsage | null> {
  for (let asked = 0; asked < asksMax; asked++) {
    if (asked > 0) await Bun.sleep(againMs)
    const answer = await askOnce(transport, callId)
    if (answer !== 'not yet') return answer
  }
  return null
}

async function askOnce(transport: NodeTransport, callId: string): Promise<ReportedUsage | null | 'not yet'> {
  const signal = new CallSignal()
  const late = setTimeout(() => signal.abort(), usageMsMax)
  try {
    const response = await transport.fetch(`${sealedUsagePath}/${callId}`, { method: 'GET', signal })
    const text = await response.text(usageBytesMax)
    if (response.status === 404) return 'not yet'
    return response.status === 200 ? readUsage(foreignJson(text)) : null
  } catch {
    return null
  } finally {
    clearTimeout(late)
  }
}

function readUsage(value: unknown): ReportedUsage | null {
  const report = (value ?? {}) as Partial<SealedUsage>
  const { prompt_tokens, completion_tokens } = (report.receipt ?? {}) as Readonly<Record<string, unknown>>
  const [prompt, completion] = [tokenCount(prompt_tokens), tokenCount(completion_tokens)]
  if (prompt === null || completion === null) return null
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  return { usage, estimated: report.usage_estimated === true, svc: report as SealedUsage }
}
