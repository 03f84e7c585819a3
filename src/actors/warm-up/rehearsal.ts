import { LargeWork } from '../../host/large-work.ts'
import { type CustomerId, type KeyId, type NodeId, newId, type ProfileId, type RuntimeId } from '../../ids.ts'
import { createLog } from '../../log.ts'
import { CacheViews } from '../../machines/placement/cache-views.ts'
import { newReading } from '../../machines/placement/reading.ts'
import { mergePolicies } from '../../machines/rules/model-policy.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import { VectorLengths } from '../../protocol/embeddings/vector-lengths.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { Access } from '../accounts/access.ts'
import { createChat } from '../chat/chat.ts'
import { DecisionLog } from '../explain/decision-log.ts'
import type { GatewayHandle } from '../gateway-handle.ts'
import type { InFlightCall } from '../pool/nodes/in-flight-call.ts'
import type { Router } from '../pool/router.ts'
import { Ticker } from '../relay/ticker.ts'
import { createMetrics } from '../telemetry/metrics.ts'

/** What a rehearsal's door is opened with. */
export interface Rehearsal {
  /** The gateway with other actors wherever a request leaves a trace. */
  readonly gateway: GatewayHandle
  stop(): void
}

function soleRoute(modelId: string, customerId: CustomerId): Route {
  const nodeId: NodeId = newId('node')
  const profileId: ProfileId = newId('mp')
  const runtimeId: RuntimeId = newId('rt')
  return {
    profileId,
    nodeId,
    runtimeId,
    runtimeKind: 'vllm',
    serves: ['chat'],
    workGuessed: false,
    ranking: null,
    rank: 0,
    external: false,
    asleep: null,
    agent: null,
    customerId,
    visibility: 'private',
    privacyClass: 'private',
    nodeClass: 'standard',
    nodeState: 'ready',
    ready: true,
    modelId,
    modelNames: [modelId],
    policyNames: [modelId],
    upstreamModelId: modelId,
    askedWith: null,
    engineRank: null,
    cache: { modelId, profileId, upstreamModelId: modelId },
    contextLength: null,
    maxOutputLength: null,
    slotsTotal: null,
    heldUntilMs: 0,
    priced: false,
    prices: null,
    loaded: true,
    file: null,
    memory: null,
    knownAt: 0,
    load: {
      inFlight: 0,
      ttftEwmaMs: null,
      tokensPerSecond: null,
      durationEwmaMs: null,
      ejectedUntilMs: 0,
      reading: newReading(profileId),
    },
  }
}

/** A pool of one node that is always ready. */
class SoleNode implements Router {
  readonly caches = new CacheViews()
  private readonly current: RoutingTable

  constructor(
    route: Route,
    private readonly way: NodeTransport,
  ) {
    const { modelId, nodeId, customerId } = route
    this.current = {
      version: 1,
      publishedAtMs: Date.now(),
      routes: [route],
      byModel: new Map([[modelId, [route]]]),
      latest: new Map(),
      owners: new Map([[nodeId, customerId]]),
    }
  }

  table(): RoutingTable {
    return this.current
  }

  nodeName(): null {
    return null
  }

  transport(): NodeTransport {
    return this.way
  }

  claim(route: Route, _call: InFlightCall): void {
    route.load.inFlight++
  }

  release(route: Route): void {
    route.load.inFlight--
  }

  began(): void {}

  servedFromQueue(): void {}

  strike(): void {}

  proved(): void {}

  usageReported(): void {}

  waitForSlot(): Promise<'timeout'> {
    return Promise.resolve('timeout')
  }
}

const nobodyPays = () => Promise.reject(new Error('nobody pays for a rehearsal'))

/**
 * The request path as it is, on actors that keep nothing: what runs through it is in no receipt, limit, metric, log line,
 * explanation or row. It admits only `key`, and knows only the model `model`, on the node at `nodeUrl`.
 */
export function createRehearsal(
  real: GatewayHandle,
  { key, model, nodeUrl, secret }: { key: string; model: string; nodeUrl: string; secret: string },
): Rehearsal {
  const { config } = real
  const customerId: CustomerId = newId('cus')
  const keyId: KeyId = newId('key')
  const policy = mergePolicies(null, null)
  const access: Access = { customerId, keyId, accountStatus: 'active', expiresAtMs: null, policy }
  const transport = createDirectTransport({
    url: nodeUrl,
    apiKey: secret,
    connectTimeoutMs: config.SVC_CONNECT_TIMEOUT_MS,
  })
  const metrics = createMetrics()
  const decisions = new DecisionLog()
  const log = createLog(config.SVC_LOG_LEVEL, () => {})
  const chat = createChat({
    config,
    router: new SoleNode(soleRoute(model, customerId), transport),
    limits: { admit: () => ({ settle: () => {} }) },
    // Its node never sleeps.
    waker: { hold: () => () => {}, failed: () => {} },
    rouser: { rouse: () => Promise.resolve(true) },
    // A rehearsal asks its model something.
    ownModels: { has: () => false, load: () => Promise.resolve(), unload: () => Promise.resolve() },
    memory: real.memory,
    largeWork: new LargeWork(),
    vectorLengths: new VectorLengths(),
    ticker: new Ticker(),
    baseUrl: real.baseUrl,
    decided: (command, decision, again) => decisions.record(command, decision, again),
    receipt: () => {},
    // As the real one does, so that the same code is warm.
    timed: () => true,
    promises: { slot: () => null, fill: (text) => Promise.resolve(text) },
    // The node is the caller's own, and no price is asked.
    ledger: real.ledger,
    idempotency: { claim: nobodyPays, complete: nobodyPays, release: () => {} },
    failed: metrics.upstreamFailure,
  })
  return {
    gateway: {
      ...real,
      metrics,
      log,
      chat,
      tracing: null,
      requests: {
        write: () => {},
        find: () => Promise.resolve(null),
        recent: () => null,
        page: () => Promise.resolve({ records: [], searchedTo: null }),
        traffic: () => Promise.resolve(null),
        firstTokens: () => Promise.resolve(null),
        failures: () => Promise.resolve({ clusters: [], steps: [], stepMs: 1, reachMs: null }),
        days: 0,
      },
      access: {
        gatewayKey: (token) => (token === key ? access : null),
        remembersKey: (token) => token === key,
        customer: () => null,
        role: () => null,
        tokenSharedAcrossRoles: () => false,
        forgetKey: () => {},
      },
    },
    stop: () => {
      chat.abortAll()
      transport.close()
      log.flush()
    },
  }
}
