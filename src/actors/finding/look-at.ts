import { createNodeWatch, type PollResult } from '../../polling/node-watch.ts'
import { createRuntimeProbe, probeBytesMax } from '../../polling/runtime-probe.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import type { RuntimeStatus } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { checkedUrl } from '../node-rows/node-checks.ts'

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
  /** Ends the look: its caller has left. */
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
    const code = locked ? 'unauthorized' : await causeOf(result.code, { config, url, signal })
    return { url, code, status: null }
  } finally {
    transport.close()
  }
}

/** Before the server itself is reached, http and https fail in the same way. */
const sameByHttp: readonly string[] = ['refused', 'dns']

/**
 * What is wrong with the address where a neighbouring one answers: http in the place of https, or no path. The key is not sent there,
 * because no person has named that address.
 */
async function causeOf(code: string, { config, url, signal }: Omit<LookAtOptions, 'apiKey'>): Promise<string> {
  const { protocol, host, origin, pathname } = new URL(url)
  const look = async (near: string) => {
    const transport = createDirectTransport({
      url: near,
      apiKey: null,
      connectTimeoutMs: config.SVC_CONNECT_TIMEOUT_MS,
    })
    try {
      return await asked(transport, config.SVC_PROBE_TIMEOUT_MS, signal)
    } finally {
      transport.close()
    }
  }
  if (protocol === 'https:' && !sameByHttp.includes(code)) {
    const plain = await look(`http://${host}`)
    return plain.kind === 'answered' || plain.code === 'unknown_runtime' ? 'speaks_http' : code
  }
  if (code !== 'unknown_runtime' || pathname === '/') return code
  return (await look(origin)).kind === 'answered' ? 'path' : code
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
      void watch.stop()
    },
  })
  const abandon = () => {
    void watch.stop()
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
