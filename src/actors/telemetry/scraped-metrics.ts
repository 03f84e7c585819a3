import { Counter, Gauge, type Registry } from 'prom-client'
import { metricPrefix } from '../../brand.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import type { NodeState } from '../../machines/rules/routing.ts'
import type { LedgerState } from '../money/ledger.ts'
import { type NodeHardware, registerHardware } from './hardware-metrics.ts'
import { type ModelPlace, registerPlaces } from './placement-metrics.ts'

/** What is read when somebody scrapes. */
export interface MetricSources {
  nodes(): Readonly<Partial<Record<NodeState, number>>>
  inFlight(): number
  /** By the name of a node; those without a call are left out. */
  inFlightByNode(): Readonly<Record<string, number>>
  /** What an operator calls a node, never an address; null: unknown. */
  nodeName(nodeId: string): string | null
  /** Of a node's last 100 claims of usage, those at the bound, by the name of the node; those without a claim are left out. */
  claimsAtBound(): Readonly<Record<string, number>>
  queued(): number
  places(): readonly ModelPlace[]
  hardware(): readonly NodeHardware[]
  /** Servers that the demand for each model asks for. */
  wantedReplicas(): Promise<Readonly<Record<string, number>>>
  placements(): Readonly<Record<'told' | 'heard' | 'dropped', number>>
  receiptsWritten(): number
  receiptsDropped(): number
  /** Kept out of the public log. */
  receiptsForged(): number
  logStopped(): boolean
  jobs(): Promise<Readonly<Record<string, number>>>
  jobsRunning(): number
  jobClaims(): number
  ledger(): LedgerState
  /** Of nodes that dialled in at this gateway. */
  tunnels(): { readonly tunnels: number; readonly streams: number }
  /** Hellos that were refused, by a code of ours. */
  hellosRefused(): ReadonlyMap<string, number>
  accessEventsWritten(): number
  accessEventsRefused(): number
  auditHeadLost(): boolean
  spansDropped(): number
  memory(): MemoryBudget
  payoutBatches(): Promise<Readonly<Record<string, number>>>
}

/** Names of nodes in flight, of which the rest is counted as `other`; and of nodes that claim, those that claim most. */
const nodesShownMax = 500
const otherLabel = 'other'

/** Each has a series even at zero: an alert needs a value to compare. */
const openJobStatuses = ['queued', 'dispatched', 'running'] as const

type Counts = Readonly<Record<string, number>>
/** undefined: its source has not started; null: it has nothing to tell yet. A number that was never read is not shown as 0. */
type Read<T> = () => T | null | undefined

const metric = (registry: Registry, name: string, help: string) => ({
  name: metricPrefix + name,
  help,
  registers: [registry],
})

/** One number each. */
const single = (registry: Registry) => ({
  gauge: (name: string, help: string, read: Read<number>) =>
    new Gauge({
      ...metric(registry, name, help),
      collect() {
        const value = read() ?? null
        if (value === null) this.remove()
        else this.set(value)
      },
    }),
  counter: (name: string, help: string, read: Read<number>) =>
    new Counter({
      ...metric(registry, name, help),
      collect() {
        this.reset()
        // What has not started has counted nothing.
        this.inc(read() ?? 0)
      },
    }),
})

/** A series for each value of a label. */
const labelled = (registry: Registry) => ({
  gaugeBy: (label: string, name: string, help: string, read: Read<Counts>) =>
    new Gauge({
      ...metric(registry, name, help),
      labelNames: [label],
      collect() {
        this.reset()
        for (const [value, count] of Object.entries(read() ?? {})) this.set({ [label]: value }, count)
      },
    }),
  counterBy: (label: string, name: string, help: string, read: Read<ReadonlyMap<string, number>>) =>
    new Counter({
      ...metric(registry, name, help),
      labelNames: [label],
      collect() {
        this.reset()
        for (const [value, count] of read() ?? []) this.inc({ [label]: value }, count)
      },
    }),
})

/** The kinds of metrics that only a scrape looks at. */
const createScraped = (registry: Registry) => ({ ...single(registry), ...labelled(registry) })
type Scraped = ReturnType<typeof createScraped>

/** By status, as the database has them: a scrape must not fail because it is away. */
function stored(
  registry: Registry,
  name: string,
  { help, always = [] }: { readonly help: string; readonly always?: readonly string[] },
  read: () => Promise<Counts> | undefined,
): void {
  new Gauge({
    ...metric(registry, name, help),
    labelNames: ['status'],
    async collect() {
      const counts = await (read() ?? Promise.resolve(null)).catch(() => null)
      this.reset()
      if (counts === null) return
      for (const status of always) this.set({ status }, counts[status] ?? 0)
      for (const [status, count] of Object.entries(counts)) this.set({ status }, count)
    },
  })
}

/** A series per busy node; while no node is busy, one series without a name, so that a sum is always a number. */
function inFlightMetric(registry: Registry, of: Partial<MetricSources>): void {
  new Gauge({
    ...metric(registry, 'requests_in_flight', 'Calls that occupy a slot of a node'),
    labelNames: ['node'],
    collect() {
      this.reset()
      const busy = Object.entries(of.inFlightByNode?.() ?? {})
      const inFlight = of.inFlight?.()
      if (busy.length === 0 && inFlight !== undefined) this.set({}, inFlight)
      for (const [node, count] of busy.slice(0, nodesShownMax)) this.set({ node }, count)
      const rest = busy.slice(nodesShownMax).reduce((sum, [, count]) => sum + count, 0)
      if (rest > 0) this.set({ node: otherLabel }, rest)
    },
  })
}

/** Servers by model. The plan is made for the scrape where there is no fresh one. */
function wantedMetric(registry: Registry, of: Partial<MetricSources>): void {
  const help = 'Servers that the demand for a model asks for, whether there is room for them or not'
  new Gauge({
    ...metric(registry, 'wanted_replicas', help),
    labelNames: ['model'],
    async collect() {
      const wanted = await (of.wantedReplicas?.() ?? Promise.resolve({})).catch(() => ({}))
      this.reset()
      for (const [model, count] of Object.entries(greatest(wanted))) this.set({ model }, count)
    },
  })
}

const greatest = (counts: Counts): Counts =>
  Object.fromEntries(
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .slice(0, nodesShownMax),
  )

function poolMetrics(
  { gaugeBy, gauge, counter, counterBy }: Scraped,
  of: Partial<MetricSources>,
  registry: Registry,
): void {
  gaugeBy('state', 'nodes', 'Nodes by state', () => of.nodes?.())
  inFlightMetric(registry, of)
  wantedMetric(registry, of)
  const atBound = 'Of a node’s last 100 paid calls, those whose claim of usage lies at the bound'
  gaugeBy('node', 'node_usage_claims_at_bound', atBound, () => greatest(of.claimsAtBound?.() ?? {}))
  gauge('requests_queued', 'Requests that wait for a free slot', () => of.queued?.())
  counter('placements_told_total', 'Long conversations told to other gateways', () => of.placements?.().told)
  counter('placements_heard_total', 'Long conversations heard of from other gateways', () => of.placements?.().heard)
  const dropped = 'Long conversations not told: too many at once, or no database'
  counter('placements_dropped_total', dropped, () => of.placements?.().dropped)
  gauge('tunnels', 'Tunnels of nodes that dialled in here', () => of.tunnels?.().tunnels)
  gauge('tunnel_streams', 'Requests under way in those tunnels', () => of.tunnels?.().streams)
  const refused = 'Attempts to open a tunnel that were refused'
  counterBy('code', 'tunnel_hellos_refused_total', refused, () => of.hellosRefused?.())
}

function recordMetrics({ gauge, counter }: Scraped, of: Partial<MetricSources>): void {
  gauge('jobs_attended', 'Private jobs that this gateway holds a lease of', () => of.jobsRunning?.())
  counter('job_claims_total', 'Looks for due private jobs, each one statement', () => of.jobClaims?.())
  counter('receipts_written_total', 'Receipts stored', () => of.receiptsWritten?.())
  counter('receipts_dropped_total', 'Receipts lost because the database was away', () => of.receiptsDropped?.())
  const forged = 'Receipts and groups of them that this gateway kept out of the public log as forged'
  counter('receipts_forged_total', forged, () => of.receiptsForged?.())
  const stopped =
    '1 while this gateway adds nothing to the public log: a fork, an unknown key, or no look at it ended for 5 minutes'
  gauge('log_stopped', stopped, () => (of.logStopped === undefined ? null : Number(of.logStopped())))
  counter('audit_access_events_written_total', 'Access events stored', () => of.accessEventsWritten?.())
  counter('audit_access_events_refused_total', 'Access events never stored', () => of.accessEventsRefused?.())
  const headLost = '1 while the end of this gateway’s audit chain is missing: actions are refused'
  gauge('audit_head_lost', headLost, () => (of.auditHeadLost === undefined ? null : Number(of.auditHeadLost())))
  counter('trace_spans_dropped_total', 'Spans that no collector took', () => of.spansDropped?.())
}

function ledgerMetrics({ gauge, counter }: Scraped, of: Partial<MetricSources>): void {
  const ledger = () => of.ledger?.()
  const reserved = 'Set aside for work that runs or leased for it, all customers'
  gauge('ledger_reserved_wei', reserved, () => {
    const wei = ledger()?.reservedWei ?? null
    return wei === null ? null : Number(wei)
  })
  const broken = 'Rules that the books break, of the last proof'
  gauge('ledger_books_broken_rules', broken, () => ledger()?.brokenRules)
  gauge('ledger_waiting', 'Reserves and settlements that wait for the database', () => ledger()?.waiting)
  counter('ledger_requests_total', 'Reserves and settlements', () => ledger()?.requests)
  counter('ledger_commits_total', 'Commits that they took together', () => ledger()?.groups)
  counter('ledger_stale_total', 'Reservations that nobody ended', () => ledger()?.stale)
}

function memoryMetrics({ gauge, counterBy }: Scraped, of: Partial<MetricSources>): void {
  gauge('memory_kept_bytes', 'Answers, forms and exports that are kept in memory', () => of.memory?.().bytes)
  gauge('memory_kept_bytes_max', 'As much as may be kept', () => of.memory?.().bytesMax)
  const refusals = 'Requests refused before a node was asked, and answers, forms and exports ended, for memory'
  counterBy('kind', 'memory_refusals_total', refusals, () => new Map(Object.entries(of.memory?.().refusals ?? {})))
}

/** `sources` fills as the actors that own them start. */
export function registerScraped(registry: Registry, sources: Partial<MetricSources>): void {
  const scraped = createScraped(registry)
  poolMetrics(scraped, sources, registry)
  registerPlaces(registry, () => sources.places?.())
  registerHardware(registry, () => sources.hardware?.())
  recordMetrics(scraped, sources)
  memoryMetrics(scraped, sources)
  ledgerMetrics(scraped, sources)
  const jobs = {
    help: 'Private jobs that have not ended, by status, as the database has them',
    always: openJobStatuses,
  }
  stored(registry, 'jobs', jobs, () => sources.jobs?.())
  const batches = { help: 'Payout batches by status, as the database has them' }
  stored(registry, 'payout_batches', batches, () => sources.payoutBatches?.())
}
