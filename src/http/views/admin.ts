import type { Role } from '../../actors/accounts/access.ts'
import type { Customer as CustomerRecord, GatewayKey } from '../../actors/accounts/account-reads.ts'
import { keyRevision } from '../../actors/accounts/key-changes.ts'
import type { ModelEntry as ModelEntryRecord } from '../../actors/catalogue/model-entries.ts'
import type { Explanation as ExplanationRecord } from '../../actors/explain/decision-log.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { MixtureRecord } from '../../actors/mixture/mixture-records.ts'
import type { NodeRecord } from '../../actors/pool/pool-admin.ts'
import { liveClaims, liveNode } from '../../actors/pool/views/live-node.ts'
import type { NodeView } from '../../actors/pool/views/node-view.ts'
import { brand } from '../../brand.ts'
import type { RouteCost } from '../../machines/placement/cost.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import { etagOf } from '../../precondition.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { fingerprint } from '../../protocol/signing/ed25519.ts'
import type { Customer, Key } from '../../protocol/wire/admin/accounts.ts'
import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { RecentMixture } from '../../protocol/wire/admin/admin-mixtures.ts'
import type { ModelEntry } from '../../protocol/wire/admin/catalogue.ts'
import type { Explanation } from '../../protocol/wire/admin/explanation.ts'
import type { LiveNode } from '../../protocol/wire/admin/inspect.ts'
import { isoTime } from '../../time.ts'
import { balanceView } from './money.ts'

const instant = (at: Date | null) => (at === null ? null : isoTime(at))
const seesOwners = (role: Role) => role !== 'viewer'

export function customerView(row: CustomerRecord): Customer {
  return {
    customer_id: row.customerId,
    display_name: row.displayName,
    account_status: row.accountStatus,
    gateway_policy: row.gatewayPolicy,
    ...balanceView(row),
    created_at: isoTime(row.createdAt),
    etag: etagOf(row),
  }
}

export function keyView(row: GatewayKey): Key {
  return {
    key_id: row.keyId,
    customer_id: row.customerId,
    display_prefix: row.displayPrefix,
    name: row.name,
    node_scope: row.nodeScope,
    model_policy: row.modelPolicy,
    created_at: isoTime(row.createdAt),
    last_used_at: instant(row.lastUsedAt),
    expires_at: instant(row.expiresAt),
    revoked_at: instant(row.revokedAt),
    etag: etagOf({ revision: keyRevision(row) }),
  }
}

/** Viewers may not see addresses, and a node without a name is named by the host of its URL. */
function shownName({ name, nodeId, url }: NodeRecord, role: Role): string {
  return seesOwners(role) || url === null || new URL(url).host !== name ? name : nodeId
}

const unwatched = {
  state: 'enrolled',
  state_since: null,
  state_reasons: [],
  state_says: null,
  held_until: null,
  in_flight: 0,
  transport: null,
  runtimes: [],
  last_error: null,
  usage_claims: liveClaims({ calls: 0, atBound: 0 }),
} as const satisfies Omit<LiveNode, 'node_id' | 'admin_state'>

/** `live` is what this gateway knows about the node now. null if it does not watch the node. */
export function nodeView(row: NodeRecord, live: NodeView | null, role: Role): Node {
  const open = seesOwners(role)
  const moving = live === null ? unwatched : liveNode(live)
  return {
    ...moving,
    node_id: row.nodeId,
    customer_id: open ? row.customerId : null,
    name: shownName(row, role),
    kind: row.kind,
    url: open ? row.url : null,
    has_api_key: row.hasApiKey,
    identity_fingerprint: row.identityKey === null ? null : fingerprint(toBase64url(row.identityKey)),
    visibility: row.visibility,
    privacy_class: row.privacyClass,
    node_class: row.nodeClass,
    rank: row.rank,
    external: row.external,
    serves: row.serves,
    payout_address: open ? row.payoutAddress : null,
    payout_address_by: open ? sayerOf(row) : null,
    alarms: [...(row.alarms ?? [])],
    hardware: live?.hardware ?? null,
    origin: row.origin,
    admin_state: row.adminState,
    state: row.adminState === 'revoked' ? 'revoked' : moving.state,
    drain_started_at: instant(row.drainStartedAt),
    macs: open ? [...(row.macs ?? [])] : null,
    wake_hours: row.wakeHours,
    wake_ms: row.wakeMs,
    created_at: isoTime(row.createdAt),
    etag: etagOf(row),
  }
}

/** Who says where the node's earnings go; null: the node has no payout address. */
const sayerOf = ({ payoutAddress, payeeStatedAt }: NodeRecord) =>
  payoutAddress === null ? null : payeeStatedAt === null ? 'operator' : 'node'

/** With what this gateway knows about the node now. */
export const nodeNow = ({ router }: Pick<GatewayHandle, 'router'>, row: NodeRecord, role: Role): Node =>
  nodeView(row, router.node(row.nodeId), role)

export function modelEntryView(row: ModelEntryRecord): ModelEntry {
  return {
    id: row.modelId,
    aliases: row.aliases,
    name: row.name,
    description: row.description,
    input_modalities: row.inputModalities,
    output_modalities: row.outputModalities,
    serves: row.serves,
    context_length: row.contextLength,
    max_output_length: row.maxOutputLength,
    prompt_token_price_wei: row.promptTokenPriceWei?.toString() ?? null,
    completion_token_price_wei: row.completionTokenPriceWei?.toString() ?? null,
    usd_prices: row.usdPrices,
    updated_at: isoTime(row.updatedAt),
    etag: etagOf(row),
  }
}

const uncatalogued = {
  aliases: [],
  name: null,
  description: null,
  input_modalities: null,
  output_modalities: null,
  serves: null,
  context_length: null,
  max_output_length: null,
  prompt_token_price_wei: null,
  completion_token_price_wei: null,
  usd_prices: null,
  updated_at: null,
  etag: null,
}

/** The entries, and the models that nodes serve without an entry, sorted by id. */
export function adminModels(entries: readonly ModelEntryRecord[], table: RoutingTable) {
  const nodes = new Map<string, { all: Set<string>; ready: Set<string>; context: number | null }>()
  for (const { modelId, nodeId, ready, nodeState, contextLength } of table.routes) {
    const seen = nodes.get(modelId) ?? { all: new Set(), ready: new Set(), context: null }
    nodes.set(modelId, seen)
    seen.all.add(nodeId)
    if (contextLength !== null) seen.context = Math.max(seen.context ?? 0, contextLength)
    if (ready && nodeState === 'ready') seen.ready.add(nodeId)
  }
  const known = new Map(entries.map((entry) => [entry.modelId, entry]))
  return [...new Set([...known.keys(), ...nodes.keys()])].sort().map((id) => {
    const entry = known.get(id)
    return {
      ...(entry === undefined ? { id, ...uncatalogued } : modelEntryView(entry)),
      in_catalogue: entry !== undefined,
      nodes: nodes.get(id)?.all.size ?? 0,
      nodes_ready: nodes.get(id)?.ready.size ?? 0,
      served_context_length: nodes.get(id)?.context ?? null,
    }
  })
}

const costView = (cost: RouteCost) => ({
  backlog_ms: cost.backlogMs,
  own_ms: cost.ownMs,
  fleet_ms: cost.fleetMs,
  slot_wait_ms: cost.slotWaitMs,
  slots: Number.isFinite(cost.slots) ? cost.slots : null,
  cold_ms: cost.coldMs,
  wake_ms: cost.wakeMs,
  doubt_ms: cost.explorationMs,
  matched_share: cost.matchedShare,
  total_ms: cost.totalMs,
})

export function explanationView(found: ExplanationRecord, role: Role): Explanation {
  return {
    object: `${brand}.admin.explanation`,
    request_id: found.requestId,
    model: found.model,
    customer_id: seesOwners(role) ? found.customerId : null,
    tries: found.tries.map(({ atMs, model, result, code, routes }) => ({
      at: isoTime(atMs),
      model,
      result,
      code,
      routes: routes.map(({ profile_id, cost, ...route }) => ({
        ...route,
        model_profile_id: profile_id,
        cost: cost === null ? null : costView(cost),
      })),
    })),
  }
}

export function mixtureView(record: MixtureRecord, role: Role): RecentMixture {
  const { prompt_tokens, completion_tokens, total_tokens } = record.usage
  return {
    request_id: record.requestId,
    customer_id: seesOwners(role) ? record.customerId : null,
    strategy: record.strategy,
    outcome: record.outcome,
    code: record.code,
    degraded: record.degraded,
    min_experts: record.minExperts,
    started_at: isoTime(record.startedAtMs),
    ended_at: isoTime(record.endedAtMs),
    latency_ms: Math.round(record.latencyMs),
    usage: { prompt_tokens, completion_tokens, total_tokens },
    experts: record.experts.map((call) => ({
      role: call.role,
      model: call.model,
      weight: call.weight,
      status: call.status,
      node_id: call.nodeId,
      request_id: call.requestId,
      receipt_hash: call.receiptHash,
      latency_ms: call.latencyMs,
      usage: { total_tokens: call.totalTokens },
    })),
  }
}
