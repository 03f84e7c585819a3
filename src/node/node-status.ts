import type { DeviceMb } from '../machines/plan/model-memory.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import { statusMessage } from '../protocol/signing/signatures.ts'
import { type NodeStatus, runtimesMax } from '../protocol/wire/nodes/agent.ts'
import type { Hardware } from '../protocol/wire/nodes/hardware.ts'
import { isoTime } from '../time.ts'
import type { TransportKeys } from './commands/transport-keys.ts'
import type { Power } from './power/power.ts'
import { agentRuntime } from './runtimes/local-runtime.ts'
import type { RuntimeSet } from './runtimes/runtime-set.ts'
import type { SealedKeys } from './sealed/sealed-keys.ts'

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

/** This node's status, signed for the request with this nonce. */
export function nodeStatus(parts: StatusParts, nodeId: string, nonce: string): NodeStatus {
  const { identity } = parts
  const stopping = parts.stopping() || !parts.power.takesWork
  const power = parts.power.told()
  const budgetMb = parts.budgetMb()
  const hardware = parts.hardware()
  const unsigned = {
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
  return { ...unsigned, signature_ed25519: identity.sign(statusMessage(nodeId, nonce, unsigned)) }
}
