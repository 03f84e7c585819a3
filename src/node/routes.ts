import { join } from 'node:path'
import type { PrivateFolder } from '../host/private-files.ts'
import { failureName, type Log } from '../log.ts'
import { createLocalCredentials } from './access/local-credentials.ts'
import { loadLocalToken, localKeys } from './access/local-keys.ts'
import { createNodeApp, type NodeApp } from './app.ts'
import { Attester, type AttestOptions } from './attestation/attester.ts'
import { NodeChat } from './chat/node-chat.ts'
import { openCommandStore } from './commands/command-store.ts'
import { runByChat } from './commands/command-work.ts'
import { Commands } from './commands/commands.ts'
import type { TransportKeys } from './commands/transport-keys.ts'
import type { Identity } from './membership/identity.ts'
import type { Membership, Place } from './membership/membership.ts'
import type { StatusParts } from './node-status.ts'
import type { Power } from './power/power.ts'
import type { GivenModels } from './pulls/given-models.ts'
import type { Pulls } from './pulls/pulls.ts'
import { type KeptReceipts, openKeptReceipts } from './receipts/kept-receipts.ts'
import { createReceiptSigner } from './receipts/receipt-signer.ts'
import { Reranker } from './rerank/rerank.ts'
import type { RuntimeSet } from './runtimes/runtime-set.ts'
import { openReplays } from './sealed/replays.ts'
import { SealedInference } from './sealed/sealed-inference.ts'
import type { SealedKeys } from './sealed/sealed-keys.ts'
import type { SealedTimes } from './sealed/sealed-stream.ts'
import { createWitness } from './witness/witness.ts'
import { openWitnessMemory, type WitnessMemory } from './witness/witness-memory.ts'

export interface RoutesOptions {
  readonly folder: PrivateFolder
  readonly identity: Identity
  readonly transportKeys: TransportKeys
  readonly sealedKeys: SealedKeys
  readonly sealedTimes: SealedTimes | undefined
  readonly attest: AttestOptions | undefined
  readonly runtimes: RuntimeSet
  readonly power: Power
  readonly wakesOthers: boolean
  readonly pulls: Pulls | null
  readonly given: GivenModels
  readonly place: Place
  readonly budgetMb: StatusParts['budgetMb']
  readonly hardware: StatusParts['hardware']
  readonly log: Log
  /** How long the hashes of signed receipts are kept. */
  readonly days: number | undefined
}

export interface Served {
  readonly routes: NodeApp
  readonly chat: NodeChat
  readonly sealed: SealedInference
  readonly reranker: Reranker
  readonly commands: Commands
  /** The logs that this node witnesses. */
  readonly witnessed: Pick<WitnessMemory, 'give' | 'logs'>
  /** What this node has signed. */
  readonly kept: KeptReceipts
  /** The node's key as a witness, `name+hash+base64`. */
  readonly witnessKey: string
  /** From then on the status says that nothing is ready. */
  beginStop(): void
}

/** Commands come with a router's signature, which only an enrolled agent can check. */
function membershipOf({ membership }: Place): Membership {
  if (membership === null) throw new Error('a command without an enrolment')
  return membership
}

/** The agent's routes over all that they need. */
export function createRoutes(options: RoutesOptions): Served {
  const {
    folder,
    identity,
    transportKeys,
    sealedKeys,
    sealedTimes: times,
    runtimes,
    power,
    place,
    budgetMb,
    hardware,
    log,
  } = options
  const { attest } = options
  let stopping = false
  const chat = new NodeChat(runtimes)
  const reranker = new Reranker({ runtimes: () => runtimes.list() })
  const credentials = createLocalCredentials({
    localToken: loadLocalToken(folder),
    keys: localKeys(folder),
    router: () => place.membership?.routerAuth ?? null,
    gatewayKeys: () => place.membership?.gatewayKeys ?? null,
  })
  const kept = openKeptReceipts({ folder, log, days: options.days })
  const sign = createReceiptSigner(identity.key, kept)
  const sealed = new SealedInference({
    runtimes,
    sign,
    // The log does not hold what a node signs of an answer that did not go out whole.
    signBroken: createReceiptSigner(identity.key, { add: () => {} }),
    ...(times === undefined ? {} : { times }),
  })
  const commands = new Commands({
    store: openCommandStore(join(folder.path, 'commands')),
    worker: {
      get nodeId() {
        return membershipOf(place).nodeId
      },
      nodeClass: () => membershipOf(place).enrollment.node_class,
      sign,
      secretKey: (keyId) => transportKeys.secretKey(keyId),
      run: runByChat((call) => chat.answer(call)),
    },
    failed: (commandId, error) => log.error('command_failed', { command_id: commandId, failure: failureName(error) }),
  })
  const witnessed = openWitnessMemory(folder)
  const witness = createWitness({ memory: witnessed, identity: identity.key, log })
  const routes = createNodeApp({
    place,
    identity: identity.key,
    sign,
    transportKeys,
    budgetMb,
    hardware,
    sealedKeys,
    sealed,
    replays: openReplays({ folder }),
    attester:
      attest === undefined
        ? null
        : new Attester({ options: attest, identity: identity.key.publicKey, sealedKeys, log }),
    runtimes,
    power,
    wakesOthers: options.wakesOthers,
    pulls: options.pulls,
    given: options.given,
    chat,
    credentials,
    reranker,
    commands,
    witness,
    log,
    stopping: () => stopping,
  })
  return {
    routes,
    chat,
    sealed,
    reranker,
    commands,
    witnessed,
    kept,
    witnessKey: witness.key,
    beginStop: () => {
      stopping = true
    },
  }
}
