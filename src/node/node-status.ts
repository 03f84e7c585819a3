import type { DeviceMb } from '../machines/plan/model-memory.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import { statusMessage } from '../protocol/signing/signatures.ts'
import { anyStatusMembers, type NodeStatus, runtimesMax } from '../protocol/wire/nodes/agent.ts'
import type { Hardware } from '../protocol/wire/nodes/hardware.ts'
import { isoTime } from '../time.ts'
import type { TransportKeys } from './commands/transport-keys.ts'
import type { Power } from './power/power.ts'
import { agentRuntime } from './runtimes/local-runtime.ts'
import type { RuntimeSet } from './runtimes/runtime-set.ts'
import type { SealedKeys } from './sealed/sealed-keys.ts'

type Unsigned = Omit<NodeStatus, 'signature_ed25519'>

export interface StatusParts {
  readonly identity: SigningKey
  readonly runtimes: RuntimeSet
  readonly transportKeys: TransportKeys
  /** By device, what the models of the agent's own servers may take; null: it runs none. */
  readonly budgetMb: () => DeviceMb | null
  /** null: nothing is known of it yet. */
  readonly hardware: () => Hardware | null
  readonly sealedKeys: SealedKeys
  readonly power: Power
  /** The agent takes nothing new any more. */
  readonly stopping: () => boolean
}

/** The members that gateways have known from the first on: those of earlier versions refuse a status with any other. */
function firstMembers({ node_id, sent_at, runtimes, transport_keys }: Unsigned): Unsigned {
  return {
    node_id,
    sent_at,
    runtimes: runtimes.map(({ runtime_id, kind, state, models, slots_total, slots_free, queue_depth }) => ({
      runtime_id,
      kind,
      state,
      models: models.map(({ id, modality, ready, loaded, context_length }) => ({
        id,
        modality,
        ready,
        loaded,
        context_length,
      })),
      slots_total,
      slots_free,
      queue_depth,
    })),
    transport_keys,
  }
}

/** This node's status, signed for the request with this nonce. `members`: which of them the gateway takes; null: it does not say. */
export function nodeStatus(parts: StatusParts, nodeId: string, nonce: string, members: string | null): NodeStatus {
  const { identity } = parts
  const stopping = parts.stopping() || !parts.power.takesWork
  const power = parts.power.reported()
  const budgetMb = parts.budgetMb()
  const hardware = parts.hardware()
  const all = {
    node_id: nodeId,
    sent_at: isoTime(Date.now()),
    runtimes: parts.runtimes
      .list()
      .slice(0, runtimesMax)
      .map((runtime) => agentRuntime(runtime, stopping)),
    ...(budgetMb === null ? {} : { memory_mb: budgetMb }),
    ...(hardware === null ? {} : { hardware }),
    ...(power === null ? {} : { power }),
    transport_keys: [...parts.transportKeys.published()],
    sealed_keys: [...parts.sealedKeys.published()],
  }
  const unsigned = members === anyStatusMembers ? all : firstMembers(all)
  return { ...unsigned, signature_ed25519: identity.sign(statusMessage(nodeId, nonce, unsigned)) }
}
