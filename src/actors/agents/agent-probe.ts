import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { headers } from '../../brand.ts'
import { modelIdPattern, type NodeId } from '../../ids.ts'
import type { Probe, RuntimeReport } from '../../polling/node-watch.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import type { VerifyKey } from '../../protocol/signing/ed25519.ts'
import { newNonce, statusMessage } from '../../protocol/signing/signatures.ts'
import { withoutNewerMembers } from '../../protocol/wire/newer-members.ts'
import {
  type AgentModel,
  type AgentRuntime,
  anyStatusMembers,
  NodeStatus,
  nodeStatusPath,
  TransportKey,
} from '../../protocol/wire/nodes/agent.ts'
import { Hardware } from '../../protocol/wire/nodes/hardware.ts'
import { SealedKey } from '../../protocol/wire/nodes/sealed-key.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'
import type { NodeTransport } from '../../transport/transport.ts'

export interface AgentProbeOptions {
  /** The transport that signs requests. */
  readonly transport: NodeTransport
  readonly nodeId: NodeId
  readonly identity: VerifyKey
}

const checkStatus = TypeCompiler.Compile(NodeStatus)
const checkHardware = TypeCompiler.Compile(Hardware)

/** Checks model ids one by one, so that one malformed name does not hide the others (§22). */
function withoutOddModels(value: unknown): unknown {
  const { runtimes } = (value ?? {}) as { readonly runtimes?: unknown }
  if (!Array.isArray(runtimes)) return value
  const usable = ({ id }: { readonly id?: unknown }) => typeof id === 'string' && modelIdPattern.test(id)
  const clean = (runtime: { readonly models?: unknown } | null) =>
    Array.isArray(runtime?.models)
      ? { ...runtime, models: runtime.models.filter((model) => usable(model ?? {})) }
      : runtime
  return { ...(value as object), runtimes: runtimes.map(clean) }
}

/** Impossible numbers of a GPU are no reason to call the node ill: then nothing is known of its hardware. */
function withoutOddHardware(value: unknown): unknown {
  const { hardware, ...rest } = value as { readonly hardware?: unknown }
  return hardware === undefined || checkHardware.Check(hardware) ? value : rest
}

/** Keys are signed with all their members. */
const signedWhole: ReadonlySet<TSchema> = new Set([TransportKey, SealedKey])

/** A status, without what only later versions know. null: it has another form. */
function knownStatus(value: unknown): NodeStatus | null {
  const usual = withoutOddHardware(withoutOddModels(value))
  if (checkStatus.Check(usual)) return usual
  const older = withoutOddHardware(withoutNewerMembers(NodeStatus, withoutOddModels(value), signedWhole) ?? {})
  return checkStatus.Check(older) ? older : null
}

/** What an agent says of a model whose server it runs itself; `sentAtMs`: by its clock, which need not be right. */
function servedModel(model: AgentModel, sentAtMs: number): Partial<RuntimeModel> {
  const { loading_since, memory_mb, device_mb, resident_mb, group, pinned, evicts, server_state } = model
  const loadingMs = loading_since == null ? null : Math.max(0, sentAtMs - Date.parse(loading_since))
  return {
    ...(loading_since === undefined ? {} : { loadingSinceMs: loadingMs === null ? null : Date.now() - loadingMs }),
    ...(memory_mb === undefined ? {} : { memoryMb: memory_mb }),
    ...(device_mb === undefined ? {} : { deviceMb: device_mb }),
    ...(resident_mb === undefined ? {} : { residentMb: resident_mb }),
    ...(group === undefined ? {} : { group }),
    ...(pinned === true ? { pinned } : {}),
    ...(evicts === undefined ? {} : { evicts }),
    ...(server_state === undefined ? {} : { serverState: server_state }),
  }
}

function reportOf(runtime: AgentRuntime, { memory_mb, sent_at }: NodeStatus): RuntimeReport {
  const sentAtMs = Date.parse(sent_at)
  const models = runtime.models.map((model) => ({
    id: model.id,
    modality: model.modality,
    contextLength: model.context_length,
    ready: model.ready,
    loaded: model.loaded,
    ...(model.cache_tokens === undefined ? {} : { cacheTokens: model.cache_tokens }),
    ...(model.cache_held_tokens === undefined
      ? {}
      : { cacheHeld: { tokens: model.cache_held_tokens, full: model.cache_full === true } }),
    ...(model.adapts === undefined ? {} : { adapts: model.adapts }),
    ...(model.dozing === undefined ? {} : { dozing: model.dozing }),
    ...(model.file === undefined ? {} : { file: model.file }),
    ...(model.memory === undefined ? {} : { memory: model.memory }),
    ...servedModel(model, sentAtMs),
  }))
  return {
    label: runtime.runtime_id,
    status: {
      kind: runtime.kind,
      state: runtime.state,
      models,
      slotsTotal: runtime.slots_total,
      slotsFree: runtime.slots_free,
      queueDepth: runtime.queue_depth,
      ...(runtime.running === undefined ? {} : { running: runtime.running }),
      ...(memory_mb === undefined ? {} : { budgetsMb: memory_mb }),
    },
  }
}

/** The signature covers the parsed text before anything was removed from it. */
function isSigned(value: unknown, nonce: string, { nodeId, identity }: AgentProbeOptions): boolean {
  const { node_id, signature_ed25519 } = (value ?? {}) as Readonly<Record<string, unknown>>
  if (node_id !== nodeId || typeof signature_ed25519 !== 'string') return false
  return identity.verify(statusMessage(nodeId, nonce, value as object), signature_ed25519)
}

/**
 * Asks an agent for its status. The agent signs the status with the nonce of this question, and the gateway believes
 * nothing unsigned (§22).
 */
export function createAgentProbe(options: AgentProbeOptions): Probe {
  const { transport } = options
  return (bounded) =>
    bounded(async (signal) => {
      const nonce = newNonce()
      const asked = { [headers.statusNonce]: nonce, [headers.statusMembers]: anyStatusMembers }
      const init = { method: 'GET', headers: asked, signal } as const
      const response = await transport.fetch(nodeStatusPath, init)
      const value = foreignJson(await response.text(probeBytesMax))
      if (response.status === 401) return { kind: 'failed', code: 'unauthorized' }
      if (response.status !== 200 || value === undefined) return { kind: 'failed', code: 'malformed' }
      if (!isSigned(value, nonce, options)) return { kind: 'failed', code: 'signature_invalid' }
      const status = knownStatus(value)
      if (status === null) return { kind: 'failed', code: 'malformed' }
      const agent = {
        transportKeys: status.transport_keys,
        sealedKeys: status.sealed_keys ?? [],
        hardware: status.hardware ?? null,
      }
      const reports = status.runtimes.map((runtime) => reportOf(runtime, status))
      return { kind: 'answered', reports, agent, ...(status.power === undefined ? {} : { power: status.power }) }
    })
}
