import { createNodeWatch, type PollResult } from '../../polling/node-watch.ts'
import { createRuntimeProbe, probeBytesMax } from '../../polling/runtime-probe.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import type { RuntimeStatus } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import { createDirectTransport } from '../../transport/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { checkedUrl } from './pool-admin.ts'

export interface LookedAt {
  readonly url: string
  /** null: it answers as a model server. */
  readonly code: string | null
  readonly status: RuntimeStatus | null
}

export interface LookAtOptions {
  readonly config: Pick<Config, 'SVC_CONNECT_TIMEOUT_MS' | 'SVC_PROBE_TIMEOUT_MS'>
  readonly url: string
  readonly apiKey: string | null
  /** Ends the look: whoever asked for it has left. */
  readonly signal: AbortSignal
}

const refusals: readonly number[] = [401, 403]

/**
 * One look at a model server that is no node yet, in the way a poll looks: what it is, or why it cannot be used. Throws
 * `invalid_request` for what is no base URL.
 */
export async function lookAt({ config, url: given, apiKey, signal }: LookAtOptions): Promise<LookedAt> {
  const url = checkedUrl(given)
  const transport = createDirectTransport({ url, apiKey, connectTimeoutMs: config.SVC_CONNECT_TIMEOUT_MS })
  try {
    const result = await asked(transport, config.SVC_PROBE_TIMEOUT_MS, signal)
    if (result.kind === 'answered') return { url, code: null, status: result.reports[0]?.status ?? null }
    const locked = result.code === 'unknown_runtime' && (await wantsKey(transport, signal))
    return { url, code: locked ? 'unauthorized' : result.code, status: null }
  } finally {
    transport.close()
  }
}

async function asked(transport: NodeTransport, timeoutMs: number, signal: AbortSignal): Promise<PollResult> {
  const { promise, resolve } = Promise.withResolvers<PollResult>()
  const watch = createNodeWatch({
    probe: createRuntimeProbe(transport, runtimeModules),
    intervalMs: timeoutMs,
    timeoutMs,
    random: Math.random,
    onResult: async (result) => {
      resolve(result)
      watch.stop()
    },
  })
  const abandon = () => {
    watch.stop()
    resolve({ kind: 'failed', code: 'closed' })
  }
  signal.addEventListener('abort', abandon, { once: true })
  void watch.pollNow()
  return promise.finally(() => signal.removeEventListener('abort', abandon))
}

/** Servers that were started with a key tell nothing of themselves without it. */
async function wantsKey(transport: NodeTransport, signal: AbortSignal): Promise<boolean> {
  try {
    const answer = await transport.fetch('/v1/models', { method: 'GET', signal })
    await answer.text(probeBytesMax)
    return refusals.includes(answer.status)
  } catch {
    return false
  }
}
