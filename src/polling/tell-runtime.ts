import { modelLoadsOf } from '../runtimes/registry.ts'
import type { RuntimeModel, RuntimeStatus } from '../runtimes/runtime.ts'
import type { NodeTransport } from '../transport/transport.ts'
import { probeBytesMax } from './runtime-probe.ts'

export type ModelWishName = 'load' | 'unload'

/** A load that takes longer is given up, ms. */
const tellTimeoutMs = 600_000

/** True if this kind of server can load and unload models on command. */
export const isControllable = (kind: RuntimeStatus['kind']): boolean => modelLoadsOf(kind) !== undefined

/** Tells a model server to load or unload a model. False if it refused, null if it has no interface for it. Rejects as the transport does. */
export async function tellRuntime(
  transport: NodeTransport,
  kind: RuntimeStatus['kind'],
  wish: ModelWishName,
  model: Pick<RuntimeModel, 'id' | 'modality' | 'adapts'>,
): Promise<boolean | null> {
  const loads = modelLoadsOf(kind)
  if (loads === undefined) return null
  const signal = AbortSignal.timeout(tellTimeoutMs)
  const get = async (path: string) => {
    const response = await transport.fetch(path, { method: 'GET', signal })
    const body = await response.text(probeBytesMax)
    return { status: response.status, headers: response.headers, text: async () => body }
  }
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const response = await transport.fetch(path, { method: 'POST', headers, body: JSON.stringify(body), signal })
    await response.text(probeBytesMax)
    return response.status
  }
  return loads[wish]({ get, post }, model)
}
