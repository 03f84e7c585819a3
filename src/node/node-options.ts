import type { AttestOptions } from './attestation/attester.ts'
import type { HardwareOptions } from './hardware/hardware-watch.ts'
import type { JoinOptions } from './membership/joining.ts'
import type { PowerOptions } from './power/power.ts'
import type { PullOptions } from './pulls/pulls.ts'
import type { RuntimeTimes } from './runtimes/local-runtime.ts'
import type { DeclaredRanker, RuntimeKey, RuntimeKvEvents } from './runtimes/runtime-set.ts'
import type { SealedKeyTimes } from './sealed/sealed-keys.ts'
import type { SealedTimes } from './sealed/sealed-stream.ts'
import type { ServerTimes } from './servers/server-times.ts'

/** How an agent is started. */
export interface NodeOptions extends JoinOptions {
  readonly dataDir: string
  readonly hostname: string
  /** 0: any free one. */
  readonly port: number
  /** Base URLs of model servers. */
  readonly runtimes: readonly string[]
  /** Model servers that rerank documents but do not say so. */
  readonly rankers?: readonly DeclaredRanker[]
  /** Keys of model servers that need one. */
  readonly runtimeKeys?: readonly RuntimeKey[]
  /** Model servers that publish what is in their caches. */
  readonly kvEvents?: readonly RuntimeKvEvents[]
  /** Look for model servers on loopback. */
  readonly discover: boolean
  readonly runtimeTimes?: RuntimeTimes
  /** The time between two looks at loopback, ms. */
  readonly discoverMs?: number
  /** How long the agent still takes new work at the stop, ms. */
  readonly drainMs?: number
  /** How long running work may take at the stop, ms. */
  readonly graceMs?: number
  /** Where tools and files of this computer's hardware are. */
  readonly hardware?: Partial<HardwareOptions>
  readonly serverTimes?: Partial<ServerTimes>
  /** Sleeping, yielding, waking others. */
  readonly power?: PowerOptions
  /** What models it may fetch; absent: none. */
  readonly pulls?: PullOptions
  /** The files that `models.json` names for its models may be copied to other nodes of the same owner. */
  readonly givesModels?: boolean
  readonly sealedTimes?: SealedTimes
  readonly sealedKeyTimes?: SealedKeyTimes
  /** On a confidential machine: how clients are shown what runs on it. Absent: they are shown nothing. */
  readonly attest?: AttestOptions
  /** Keys of logs that the owner has this node witness, as `name+hash+base64`, beside the one of the enrolment. */
  readonly logKeys?: readonly string[]
  /** How long the hashes of the receipts that this node signs are kept. */
  readonly receiptDays?: number
}
