import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { detectRuntime } from '../runtimes/registry.ts'
import type { ProbeFetch, RuntimeModel, RuntimeModule, RuntimeStatus } from '../runtimes/runtime.ts'
import type { NodeTransport } from '../transport/transport.ts'
import type { Probe } from './node-watch.ts'
import { wholeReport } from './rank-reports.ts'

/** A longer answer is not an answer to a status question. */
export const probeBytesMax = 1024 * 1024

export function probeFetch(transport: NodeTransport, signal: AbortSignal): ProbeFetch {
  return async (path) => {
    const response = await transport.fetch(path, { method: 'GET', signal })
    // The body is always read, because an unread body would block its connection.
    const body = await response.text(probeBytesMax)
    return { status: response.status, headers: response.headers, text: async () => body }
  }
}

/** Hides a model whose name or description contains the node's own key: every client of the model would read it. */
function withoutConfided(status: RuntimeStatus, { confided }: NodeTransport): RuntimeStatus {
  if (confided === undefined) return status
  const said = ({ id, file }: RuntimeModel) => [id, ...Object.values(file ?? {})].join('\n')
  return { ...status, models: status.models.filter((model) => !confided.isIn(said(model))) }
}

/**
 * Asks a model server by its own signs. `modules`: in the order in which they are tried; the first that knows its own wins.
 * `reportsOf`: whether its ranks are told apart. `foundKind`: what another process has found there since; null: nothing.
 */
export function createRuntimeProbe(
  transport: NodeTransport,
  modules: readonly RuntimeModule[],
  reportsOf = wholeReport,
  foundKind: () => RuntimeKind | null | undefined = () => undefined,
): Probe {
  let module: RuntimeModule | null = null
  let before: RuntimeModule | null = null
  let said: RuntimeStatus | null = null
  return async (bounded) => {
    const kind = foundKind()
    if (kind !== undefined) {
      module = modules.find((known) => known.kind === kind) ?? null
      said = null
    }
    try {
      // A server that only returns errors keeps its last known kind.
      module ??= (await bounded((signal) => detectRuntime(probeFetch(transport, signal), modules))) ?? before
      const known = module
      if (known === null) return { kind: 'failed', code: 'unknown_runtime' }
      before = known
      const status = await bounded((signal) => known.probe(probeFetch(transport, signal), said))
      said = status
      return { kind: 'answered', reports: reportsOf(withoutConfided(status, transport)) }
    } catch (error) {
      // Another server may be at the address when it answers again.
      module = null
      said = null
      throw error
    }
  }
}
